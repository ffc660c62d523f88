// A whole tiny Qwen3-MoE against transformers: everything but the experts by the formulas of
// tests/reference in double, the blocks of experts by the CPU's kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activations/gates.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/route.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/expert_golden.h"
#include "tests/kernels/testing.h"
#include "tests/reference/attention.h"
#include "tests/reference/heads.h"
#include "tests/reference/linear.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace expert_block_golden_test {
namespace {

// Of qwen3_moe_aux_full/config.json.
constexpr int64_t kHidden = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kExperts = 8, kChosen = 3;
constexpr int64_t kInner = 32, kWidth = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr double kEps = 1e-6, kTheta = 10000.0;

Doubles Normed(const Doubles& x, const Doubles& weight) {
  const auto width = static_cast<int64_t>(weight.size());
  const auto rows = static_cast<int64_t>(x.size()) / width;
  Doubles y(x.size()), rstd(Size(rows));
  reference::RmsNorm<double>({rows, width, kEps}, x.data(), weight.data(), y.data(), rstd.data());
  return y;
}

// y += x W^T in rows of `stride`.
void AddLinear(const Doubles& x, const Doubles& w, int64_t in, double* y, int64_t stride) {
  const auto rows = static_cast<int64_t>(x.size()) / in;
  const auto out = static_cast<int64_t>(w.size()) / in;
  reference::AddProduct<double>({rows, out, in}, 1.0, {x.data(), in}, {w.data(), in, true}, y,
                                stride);
}

// What the experts add to the residual, by the kernels: router, sorting, dispatch, products and
// combination.
Floats ExpertsOf(const GoldenTensors& model, const std::string& layer, const Floats& x) {
  const int64_t tokens = static_cast<int64_t>(x.size()) / kHidden, pairs = tokens * kChosen;
  Floats gate_up, down;
  for (int64_t e = 0; e < kExperts; ++e) {
    const std::string expert = layer + "mlp.experts." + std::to_string(e) + ".";
    for (const auto& [name, stack] : {std::pair<const char*, Floats*>{"gate_proj", &gate_up},
                                      {"up_proj", &gate_up},
                                      {"down_proj", &down}}) {
      const Floats part = model.Values<float>(expert + name + ".weight");
      stack->insert(stack->end(), part.begin(), part.end());
    }
  }
  const Floats router = model.Values<float>(layer + "mlp.gate.weight");
  Floats logits(Size(tokens * kExperts)), weights(Size(pairs)), y(x.size());
  Floats rows(Size(pairs * kHidden)), gates(Size(pairs * 2 * kInner)), inner(Size(pairs * kInner));
  std::vector<int32_t> ids(Size(pairs)), order(ids), places(ids), offsets(kExperts + 1);
  std::vector<int32_t> counts(kExperts);
  Gemm({.spec = {.transpose_b = true},
        .m = tokens,
        .n = kExperts,
        .k = kHidden,
        .a = x.data(),
        .lda = kHidden,
        .b = router.data(),
        .ldb = kHidden,
        .c = logits.data(),
        .ldc = kExperts,
        .workspace = {}},
       nullptr);
  RouteForward({.spec = {.experts = kExperts, .chosen = kChosen, .renormalise = true},
                .tokens = tokens,
                .logits = logits.data(),
                .ids = ids.data(),
                .weights = weights.data()},
               nullptr);
  SortByExpert({{kExperts, kChosen},
                tokens,
                ids.data(),
                order.data(),
                places.data(),
                offsets.data(),
                counts.data(),
                {}},
               nullptr);
  DispatchForward({{.hidden = kHidden, .chosen = kChosen},
                   tokens,
                   order.data(),
                   places.data(),
                   x.data(),
                   rows.data()},
                  nullptr);
  GroupedLinearForward({{.experts = kExperts, .in_features = kHidden, .out_features = 2 * kInner},
                        pairs,
                        offsets.data(),
                        rows.data(),
                        gate_up.data(),
                        nullptr,
                        gates.data()},
                       nullptr);
  SwigluForward(
      {.spec = {.intermediate = kInner}, .rows = pairs, .gate_up = gates.data(), .y = inner.data()},
      nullptr);
  GroupedLinearForward({{.experts = kExperts, .in_features = kInner, .out_features = kHidden},
                        pairs,
                        offsets.data(),
                        inner.data(),
                        down.data(),
                        nullptr,
                        rows.data()},
                       nullptr);
  CombineForward({{.hidden = kHidden, .chosen = kChosen},
                  tokens,
                  places.data(),
                  weights.data(),
                  rows.data(),
                  y.data()},
                 nullptr);
  return y;
}

// q and k normed by head and turned, then attention document by document: [T, heads head_dim].
Doubles Attended(const GoldenTensors& model, const std::string& layer, const GoldenTensors& batch,
                 const Doubles& x) {
  const auto tokens = static_cast<int64_t>(x.size()) / kHidden;
  const auto positions = batch.Values<int64_t>("position_ids");
  const auto cu = batch.Values<int32_t>("cu_seqlens");
  Doubles qkv(Size(tokens * kWidth)), out(Size(tokens * kHeads * kHeadDim));
  double* column = qkv.data();
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    const Doubles w = model.Wide(layer + "self_attn." + name + ".weight");
    AddLinear(x, w, kHidden, column, kWidth);
    column += static_cast<int64_t>(w.size()) / kHidden;
  }
  const std::vector<double> frequencies = reference::RopeFrequencies(kHeadDim, kTheta, nullptr);
  const Doubles q_norm = model.Wide(layer + "self_attn.q_norm.weight");
  const Doubles k_norm = model.Wide(layer + "self_attn.k_norm.weight");
  for (int64_t t = 0; t < tokens; ++t) {
    Doubles cos, sin;
    for (const double f : frequencies) {
      cos.push_back(std::cos(static_cast<double>(positions[Size(t)]) * f));
      sin.push_back(std::sin(static_cast<double>(positions[Size(t)]) * f));
    }
    for (int64_t h = 0; h < kHeads + kKvHeads; ++h) {
      double* head = qkv.data() + t * kWidth + h * kHeadDim;
      const Doubles normed = Normed({head, head + kHeadDim}, h < kHeads ? q_norm : k_norm);
      std::copy(normed.begin(), normed.end(), head);
      reference::RotateHead(kHeadDim, cos.data(), sin.data(), 1.0, head);
    }
  }
  for (size_t d = 0; d + 1 < cu.size(); ++d) {
    const int64_t length = cu[d + 1] - cu[d];
    Doubles lse(Size(length * kHeads));
    reference::Attention<double>(
        {length, kHeads, kKvHeads, kHeadDim, 0, 1 / std::sqrt(static_cast<double>(kHeadDim))},
        qkv.data() + cu[d] * kWidth, out.data() + cu[d] * kHeads * kHeadDim, lse.data());
  }
  return out;
}

// The experts' sums have at most 64 products and a value meets fewer than 200 roundings through
// both layers, each at most u of the largest logit's parts; the router's weights have 50 more. The
// file holds float32.
TEST(ExpertBlockGoldenTest, LogitsOfQwen3MoeAreThoseOfTransformers) {
  const std::string folder = ExpertGoldenFolder("qwen3_moe_aux_full");
  if (folder.empty()) GTEST_SKIP() << "needs moe/qwen3_moe_aux_full";
  const GoldenTensors model(folder + "/model.safetensors"), batch(folder + "/batch.safetensors");
  const auto tokens = batch.Values<int64_t>("input_ids");
  const Doubles table = model.Wide("model.embed_tokens.weight");
  Doubles x;
  for (const int64_t id : tokens) {
    x.insert(x.end(), table.begin() + id * kHidden, table.begin() + (id + 1) * kHidden);
  }
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const Doubles attended =
        Attended(model, name, batch, Normed(x, model.Wide(name + "input_layernorm.weight")));
    AddLinear(attended, model.Wide(name + "self_attn.o_proj.weight"), kHeads * kHeadDim, x.data(),
              kHidden);
    const Doubles normed = Normed(x, model.Wide(name + "post_attention_layernorm.weight"));
    const Floats experts = ExpertsOf(model, name, Floats(normed.begin(), normed.end()));
    for (size_t i = 0; i < x.size(); ++i) x[i] += experts[i];
  }
  const Doubles want = GoldenTensors(folder + "/logits.safetensors").Wide("logits");
  Doubles logits(want.size());
  AddLinear(Normed(x, model.Wide("model.norm.weight")), model.Wide("lm_head.weight"), kHidden,
            logits.data(), static_cast<int64_t>(want.size() / tokens.size()));
  ExpectWithin(Floats(logits.begin(), logits.end()), want, 250 * kUnit * MaxAbs(want), "logits");
}

}  // namespace
}  // namespace expert_block_golden_test
}  // namespace coxswain::kernels
