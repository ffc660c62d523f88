// The ops of kernels/torch over the CPU's kernels, through torch's dispatcher and autograd, against
// the same formulas by torch in float64. Invariants torch-1, torch-3.
//
// Bound: the sums here have at most 64 terms and a value passes fewer than 36 other roundings from
// inputs to a gradient; each is at most u = 2^-24 of the largest magnitude it meets, which is
// within 8 times that of the tensor: 800 u of a tensor's largest magnitude.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <functional>
#include <string>
#include <vector>

namespace coxswain::kernels {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

constexpr double kBound = 800 * 0x1p-24;

// The results of torch.ops.coxswain.<name>.
Tensors Call(const std::string& name, torch::jit::Stack arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("coxswain::" + name).c_str(), "");
  op.callBoxed(&arguments);
  Tensors results;
  for (const c10::IValue& value : arguments) results.push_back(value.toTensor());
  return results;
}

Tensor Normal(at::IntArrayRef shape, double scale = 1.0) {
  return at::randn(shape, at::kFloat) * scale;
}

// The first `count` results and the gradients of all inputs under fixed weights of the results.
Tensors ResultsOf(const Function& function, const Tensors& inputs, at::ScalarType type,
                  size_t count) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach().to(type).clone().set_requires_grad(true));
  }
  Tensors results = function(leaves);
  results.resize(count);
  at::manual_seed(3);
  Tensor sum = at::zeros({}, type);
  for (const Tensor& result : results) {
    sum = sum + (result * at::randn(result.sizes(), at::kFloat).to(type)).sum();
  }
  sum.backward();
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

class OpsTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }

  static void Expect(const Tensors& inputs, size_t results, const Function& ours,
                     const Function& formula) {
    const Tensors got = ResultsOf(ours, inputs, at::kFloat, results);
    const Tensors want = ResultsOf(formula, inputs, at::kDouble, results);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(got[i].defined()) << "value " << i;
      ASSERT_EQ(got[i].sizes(), want[i].sizes()) << "value " << i;
      const double error = (got[i].to(at::kDouble) - want[i]).abs().max().item<double>();
      EXPECT_LE(error, kBound * want[i].abs().max().item<double>()) << "value " << i;
    }
  }
};

Tensor RmsNormFormula(const Tensor& x, const Tensor& weight, double offset) {
  return x * at::rsqrt(x.square().mean(-1, true) + 1e-5) * (weight + offset);
}

Tensor Rotated(const Tensor& heads, const Tensor& cos, const Tensor& sin) {
  const int64_t half = cos.size(1);
  const Tensor a = heads.narrow(2, 0, half), b = heads.narrow(2, half, half);
  const Tensor c = cos.to(heads.scalar_type()).unsqueeze(1);
  const Tensor s = sin.to(heads.scalar_type()).unsqueeze(1);
  const Tensor rest = heads.narrow(2, 2 * half, heads.size(2) - 2 * half);
  return at::cat({a * c - b * s, b * c + a * s, rest}, 2);
}

TEST_F(OpsTest, RmsNormAndResidual) {
  const Tensors inputs = {Normal({2, 3, 13}), Normal({2, 3, 13}), Normal({13})};
  Expect(
      {inputs[0], inputs[2]}, 1,
      [](const Tensors& in) {
        return Call("rms_norm", {in[0], in[1], 1e-5, 1.0});
      },
      [](const Tensors& in) { return Tensors{RmsNormFormula(in[0], in[1], 1.0)}; });
  Expect(
      inputs, 2,
      [](const Tensors& in) {
        return Call("add_rms_norm", {in[0], in[1], in[2], 1e-5, 0.0});
      },
      [](const Tensors& in) {
        return Tensors{RmsNormFormula(in[0] + in[1], in[2], 0.0), in[0] + in[1]};
      });
}

TEST_F(OpsTest, LayerNorm) {
  Expect(
      {Normal({5, 13}), Normal({13}), Normal({13})}, 1,
      [](const Tensors& in) {
        return Call("layer_norm", {in[0], in[1], in[2], 1e-5});
      },
      [](const Tensors& in) { return Tensors{at::layer_norm(in[0], {13}, in[1], in[2], 1e-5)}; });
}

TEST_F(OpsTest, Activations) {
  const auto gated = [](const Tensors& in, const std::function<Tensor(const Tensor&)>& act) {
    return Tensors{act(in[0].narrow(1, 0, 7)) * in[0].narrow(1, 7, 7)};
  };
  Expect(
      {Normal({5, 14})}, 1, [](const Tensors& in) { return Call("swiglu", {in[0]}); },
      [&](const Tensors& in) { return gated(in, [](const Tensor& x) { return at::silu(x); }); });
  for (const bool erf : {false, true}) {
    const std::string form = erf ? "none" : "tanh";
    Expect(
        {Normal({5, 14})}, 1,
        [&](const Tensors& in) {
          return Call("geglu", {in[0], erf});
        },
        [&](const Tensors& in) {
          return gated(in, [&](const Tensor& x) { return at::gelu(x, form); });
        });
    Expect(
        {Normal({5, 14})}, 1,
        [&](const Tensors& in) {
          return Call("gelu", {in[0], erf});
        },
        [&](const Tensors& in) { return Tensors{at::gelu(in[0], form)}; });
  }
}

// Weights apart and weights in one piece, which take one product.
TEST_F(OpsTest, GatedMlp) {
  const Tensor both = Normal({14, 12}, 0.3);
  const Tensors inputs = {Normal({5, 12}), both.narrow(0, 0, 7), both.narrow(0, 7, 7),
                          Normal({12, 7}, 0.3)};
  const Function formula = [](const Tensors& in) {
    return Tensors{
        at::linear(at::silu(at::linear(in[0], in[1])) * at::linear(in[0], in[2]), in[3])};
  };
  for (const bool overwrites : {false, true}) {
    Expect(
        inputs, 1,
        [&](const Tensors& in) {
          return Call("gated_mlp", {in[0], in[1], in[2], in[3], 0, overwrites});
        },
        formula);
    Expect(
        {inputs[0], both, inputs[3]}, 1,
        [&](const Tensors& in) {
          return Call("gated_mlp", {in[0], in[1], c10::IValue(), in[2], 0, overwrites});
        },
        [&](const Tensors& in) {
          return formula({in[0], in[1].narrow(0, 0, 7), in[1].narrow(0, 7, 7), in[2]});
        });
  }
}

TEST_F(OpsTest, GatedMlpOfNoRowsHasGradientsOfZero) {
  const Tensor x = Normal({0, 4}).set_requires_grad(true);
  const Tensor down = Normal({4, 5}).set_requires_grad(true);
  const Tensor out = Call("gated_mlp", {x, Normal({5, 4}), Normal({5, 4}), down, 0, false})[0];
  EXPECT_EQ(out.sizes(), x.sizes());
  out.sum().backward();
  EXPECT_EQ(down.grad().abs().sum().item<float>(), 0.0f);
}

// Where backward wrote over what forward saved, a second one of the same graph is refused.
TEST_F(OpsTest, ASecondBackwardOverWhatIsGoneFails) {
  const Tensor x = Normal({3, 4}).set_requires_grad(true);
  const Tensors out =
      Call("gated_mlp", {x, Normal({5, 4}), Normal({5, 4}), Normal({4, 5}), 0, true});
  out[0].sum().backward({}, /*retain_graph=*/true);
  EXPECT_THROW(out[0].sum().backward(), c10::Error);
}

TEST_F(OpsTest, CrossEntropy) {
  const Tensor targets = at::tensor({3, 0, -100, 10, 7}, at::kInt);
  const auto formula = [&](const Tensor& logits) {
    const Tensor z = 5.0 * at::tanh(logits / 5.0);
    const Tensor smooth =
        at::cross_entropy_loss(z, targets.to(at::kLong), {}, at::Reduction::Sum, -100, 0.1);
    const Tensor kept = (targets != -100).to(z.scalar_type());
    return smooth + 0.01 * (kept * at::logsumexp(z, {1}).square()).sum();
  };
  Expect(
      {Normal({5, 11}, 2.0)}, 1,
      [&](const Tensors& in) {
        return Call("cross_entropy", {in[0], targets, 0.1, 0.01, 5.0});
      },
      [&](const Tensors& in) { return Tensors{formula(in[0])}; });
  for (const auto& [chunk, overwrites] :
       {std::pair<int64_t, bool>{2, false}, {64, true}, {0, false}}) {
    const Tensor scale = at::full({1}, 0.25, at::kFloat);
    Expect(
        {Normal({5, 8}), Normal({11, 8})}, 1,
        [&, rows = chunk, over = overwrites](const Tensors& in) {
          return Call("linear_cross_entropy",
                      {in[0], in[1], targets, scale, 0.1, 0.01, 5.0, rows, over, false, false});
        },
        [&](const Tensors& in) { return Tensors{0.25 * formula(at::linear(in[0], in[1]))}; });
  }
}

constexpr int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 8, kTokens = 9;

// Documents of 5 and 4 tokens.
Tensor AttentionFormula(const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& sinks = {}) {
  Tensors out;
  for (const auto& [begin, length] : {std::pair<int64_t, int64_t>{0, 5}, {5, 4}}) {
    const auto heads = [&, b = begin, n = length](const Tensor& x) {
      return x.narrow(0, b, n).repeat_interleave(kHeads / x.size(1), 1).transpose(0, 1);
    };
    const Tensor scores = at::matmul(heads(q), heads(k).transpose(1, 2)) * 0.3;
    const Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
    Tensor seen = scores.masked_fill(hidden, -INFINITY);
    if (sinks.defined()) {
      seen = at::cat({seen, sinks.view({kHeads, 1, 1}).expand({kHeads, length, 1})}, 2);
    }
    const Tensor p = at::softmax(seen, -1).narrow(2, 0, length);
    out.push_back(at::matmul(p, heads(v)).transpose(0, 1));
  }
  return at::cat(out);
}

TEST_F(OpsTest, AttentionOfPackedAndSeparateHeads) {
  const Tensor cu = at::tensor({0, 5, 9}, at::kInt);
  Expect(
      {Normal({kTokens, kHeads, kHeadDim}), Normal({kTokens, kKvHeads, kHeadDim}),
       Normal({kTokens, kKvHeads, kHeadDim})},
      1,
      [&](const Tensors& in) {
        return Call("attention",
                    {in[0], in[1], in[2], cu, 5, false, 0.3, 0, 0.0, true, at::IValue()});
      },
      [](const Tensors& in) { return Tensors{AttentionFormula(in[0], in[1], in[2])}; });
  Expect(
      {Normal({kTokens, (kHeads + 2 * kKvHeads) * kHeadDim})}, 1,
      [&](const Tensors& in) {
        return Call("packed_attention",
                    {in[0], cu, 5, false, kHeads, kKvHeads, 0.3, 0, 0.0, true, 0, at::IValue()});
      },
      [](const Tensors& in) {
        const Tensor heads = in[0].view({kTokens, -1, kHeadDim});
        return Tensors{
            AttentionFormula(heads.narrow(1, 0, 4), heads.narrow(1, 4, 2), heads.narrow(1, 6, 2))
                .flatten(1)};
      });
}

TEST_F(OpsTest, AttentionWithSinksAndValuesOfAnotherWidth) {
  const Tensor cu = at::tensor({0, 5, 9}, at::kInt);
  const int64_t values = 6;
  Expect(
      {Normal({kTokens, kHeads, kHeadDim}), Normal({kTokens, kKvHeads, kHeadDim}),
       Normal({kTokens, kKvHeads, values}), Normal({kHeads})},
      1,
      [&](const Tensors& in) {
        return Call("attention", {in[0], in[1], in[2], cu, 5, false, 0.3, 0, 0.0, true, in[3]});
      },
      [](const Tensors& in) { return Tensors{AttentionFormula(in[0], in[1], in[2], in[3])}; });
  const int64_t key_columns = (kHeads + kKvHeads) * kHeadDim;
  Expect(
      {Normal({kTokens, key_columns + kKvHeads * values}), Normal({kHeads})}, 1,
      [&](const Tensors& in) {
        return Call("packed_attention",
                    {in[0], cu, 5, false, kHeads, kKvHeads, 0.3, 0, 0.0, true, values, in[1]});
      },
      [&](const Tensors& in) {
        const Tensor keys = in[0].narrow(1, 0, key_columns).view({kTokens, -1, kHeadDim});
        const Tensor v = in[0].narrow(1, key_columns, kKvHeads * values);
        return Tensors{AttentionFormula(keys.narrow(1, 0, kHeads), keys.narrow(1, kHeads, kKvHeads),
                                        v.view({kTokens, kKvHeads, values}), in[1])
                           .flatten(1)};
      });
}

struct Turn {
  Tensor angle = at::randn({kTokens, 3}, at::kFloat);  // 6 of 8 elements turn
  Tensor cos = angle.cos(), sin = angle.sin();
  Tensor positions = at::arange(kTokens, at::kInt);
};

TEST_F(OpsTest, Rope) {
  const Turn turn;
  Expect(
      {Normal({kTokens, (kHeads + 2 * kKvHeads) * kHeadDim})}, 1,
      [&](const Tensors& in) {
        return Call("rope", {in[0], turn.cos, turn.sin, turn.positions, kHeads, kKvHeads, false});
      },
      [&](const Tensors& in) {
        const Tensor heads = in[0].view({kTokens, -1, kHeadDim});
        const Tensor turned = Rotated(heads.narrow(1, 0, 6), turn.cos, turn.sin);
        return Tensors{at::cat({turned, heads.narrow(1, 6, 2)}, 1).flatten(1)};
      });
}

TEST_F(OpsTest, QkvProjectionWithNormAndBias) {
  const Turn turn;
  const Tensors inputs = {Normal({kTokens, 12}), Normal({32, 12}, 0.3), Normal({16, 12}, 0.3),
                          Normal({16, 12}, 0.3), Normal({32}),          Normal({16}),
                          Normal({16}),          Normal({8}),           Normal({8})};
  Expect(
      inputs, 1,
      [&](const Tensors& in) {
        torch::jit::Stack stack(in.begin(), in.end());
        const torch::jit::Stack rest = {turn.cos, turn.sin, turn.positions, kHeads, kKvHeads,
                                        1e-5,     0.0,      false};
        stack.insert(stack.end(), rest.begin(), rest.end());
        return Call("qkv_projection", stack);
      },
      [&](const Tensors& in) {
        const auto heads = [&](int i) {
          return at::linear(in[0], in[i], in[3 + i]).view({kTokens, -1, kHeadDim});
        };
        const Tensor q = Rotated(RmsNormFormula(heads(1), in[7], 0.0), turn.cos, turn.sin);
        const Tensor k = Rotated(RmsNormFormula(heads(2), in[8], 0.0), turn.cos, turn.sin);
        return Tensors{at::cat({q, k, heads(3)}, 1).flatten(1)};
      });
}

TEST_F(OpsTest, Adapters) {
  const Tensor weight = Normal({7, 12}, 0.3), bias = Normal({7});
  const Tensors inputs = {Normal({2, 3, 12}), Normal({4, 12}, 0.3), Normal({7, 4}), Normal({7})};
  const auto product = [&](const Tensors& in) {
    return at::linear(in[0], weight.to(in[0].scalar_type())) +
           2.0 * at::linear(at::linear(in[0], in[1]), in[2]);
  };
  Expect(
      {inputs[0], inputs[1], inputs[2]}, 1,
      [&](const Tensors& in) {
        return Call("lora_linear", {in[0], weight, bias, in[1], in[2], 2.0});
      },
      [&](const Tensors& in) { return Tensors{product(in) + bias}; });
  const Tensor apart = at::cat({weight, weight}, 1).narrow(1, 0, weight.size(1));
  EXPECT_FALSE(apart.is_contiguous());
  Expect(
      {inputs[0], inputs[1], inputs[2]}, 1,
      [&](const Tensors& in) {
        return Call("lora_linear", {in[0], apart, bias, in[1], in[2], 2.0});
      },
      [&](const Tensors& in) { return Tensors{product(in) + bias}; });
  Expect(
      inputs, 1,
      [&](const Tensors& in) {
        return Call("dora_linear", {in[0], weight, bias, in[1], in[2], in[3], 2.0});
      },
      [&](const Tensors& in) {
        const Tensor sum = weight.to(at::kDouble) + 2.0 * at::matmul(in[2], in[1]);
        return Tensors{product(in) * in[3] / sum.detach().norm(2, {1}) + bias};
      });
}

TEST_F(OpsTest, Embedding) {
  const Tensor ids = at::tensor({3, 1, 3, 0}, at::kInt).view({2, 2});
  Expect(
      {Normal({5, 6})}, 1,
      [&](const Tensors& in) {
        return Call("embedding", {ids, in[0], 0.5});
      },
      [&](const Tensors& in) { return Tensors{0.5 * at::embedding(in[0], ids.to(at::kLong))}; });
}

TEST_F(OpsTest, RouteBySoftmaxAndBySigmoidInGroups) {
  const auto formula = [](const Tensor& scores, const Tensor& values) {
    const Tensor weights = scores.gather(1, std::get<1>(values.topk(3, -1)));
    return Tensors{weights / weights.sum(-1, true) * 1.5};
  };
  const c10::IValue none;
  Expect(
      {Normal({7, 9})}, 1,
      [&](const Tensors& in) {
        return Call("route", {in[0], 3, false, none, 1, 1, true, 1.5, none});
      },
      [&](const Tensors& in) { return formula(in[0].softmax(-1), in[0]); });
  // The bias opens one of three groups alone.
  const Tensor bias = at::tensor({0.0f, 0.0f, 0.0f, 5.0f, 5.0f, 5.0f, 0.0f, 0.0f, 0.0f});
  Expect(
      {Normal({7, 9})}, 1,
      [&](const Tensors& in) {
        return Call("route", {in[0], 3, true, bias, 3, 1, true, 1.5, none});
      },
      [&](const Tensors& in) {
        return formula(in[0].sigmoid(), in[0].sigmoid() + bias.to(in[0].scalar_type()));
      });
  const Tensor padding = at::tensor({0, -1}, at::kInt);
  const Tensors padded = Call("route", {Normal({2, 4}), 2, false, none, 1, 1, true, 1.0, padding});
  EXPECT_TRUE((padded[1].select(0, 1) == -1).all().item<bool>());
  EXPECT_THROW(Call("route", {Normal({2, 4}), 5, false, none, 1, 1, true, 1.0, none}), c10::Error);
}

TEST_F(OpsTest, RouterLoss) {
  const Tensor ids = at::tensor({0, 1, 4, 2, 1, 0, 3, 1}, at::kInt).view({4, 2});
  Expect(
      {Normal({4, 5})}, 1,
      [&](const Tensors& in) {
        return Tensors{Call("router_loss", {in[0], ids})[0].to(at::kFloat)};
      },
      [&](const Tensors& in) {
        const Tensor use = at::one_hot(ids.to(at::kLong), 5).sum(1).to(at::kDouble).mean(0);
        return Tensors{at::stack(
            {(use * in[0].softmax(-1).mean(0)).sum() * 5, in[0].logsumexp(-1).square().mean()})};
      });
}

// Expert 3 has no rows, token 2 is padding.
TEST_F(OpsTest, ExpertsFromDispatchToCombine) {
  const Tensor ids = at::tensor({0, 1, 2, 0, -1, -1, 1, 2, 2, 1}, at::kInt).view({5, 2});
  const Tensors sorted = Call("sort_by_expert", {ids, 4});
  EXPECT_TRUE(at::equal(sorted[3], at::tensor({2, 3, 3, 0}, at::kInt)));
  Expect(
      {Normal({5, 6}), Normal({4, 7, 6}), Normal({4, 7}), Normal({5, 2})}, 1,
      [&](const Tensors& in) {
        const Tensor rows = Call("dispatch", {in[0], sorted[0], sorted[1]})[0];
        const Tensor y = Call("grouped_linear", {rows, in[1], in[2], sorted[2]})[0];
        return Call("combine", {y, in[3], sorted[0], sorted[1]});
      },
      [&](const Tensors& in) {
        Tensor y = at::zeros({5, 7}, at::kDouble);
        for (int64_t e = 0; e < 4; ++e) {
          const Tensor weight = (in[3] * (ids == e)).sum(-1, true);
          y = y + weight * at::linear(in[0], in[1].select(0, e), in[2].select(0, e));
        }
        return Tensors{y};
      });
}

// Expert 1 has no rows.
TEST_F(OpsTest, ExpertsWithTheirGate) {
  const std::vector<int> counts = {2, 0, 5, 1};  // rows of each expert
  const Tensor offsets = at::tensor({0, 2, 2, 7, 8}, at::kInt);
  Expect(
      {Normal({8, 6}), Normal({4, 10, 6}, 0.5), Normal({4, 10}, 0.5)}, 1,
      [&](const Tensors& in) {
        return Tensors{Call("grouped_gated_linear", {in[0], in[1], in[2], offsets})[0]};
      },
      [&](const Tensors& in) {
        Tensors rows;
        int64_t row = 0;
        for (int64_t e = 0; e < 4; ++e) {
          const Tensor x = in[0].narrow(0, row, counts[static_cast<size_t>(e)]);
          row += x.size(0);
          const Tensor gate_up = at::linear(x, in[1].select(0, e), in[2].select(0, e));
          rows.push_back(at::silu(gate_up.narrow(1, 0, 5)) * gate_up.narrow(1, 5, 5));
        }
        return Tensors{at::cat(rows)};
      });
  EXPECT_THROW(
      Call("grouped_gated_linear", {Normal({8, 6}), Normal({4, 9, 6}), c10::IValue(), offsets}),
      c10::Error);
}

TEST_F(OpsTest, AdaptersOfExperts) {
  const Tensor weight = Normal({4, 7, 6}, 0.3), bias = Normal({4, 7});
  const std::vector<int> counts = {2, 0, 5, 1};  // rows of each expert
  const Tensor offsets = at::tensor({0, 2, 2, 7, 8}, at::kInt);
  Expect(
      {Normal({8, 6}), Normal({4, 3, 6}, 0.3), Normal({4, 7, 3})}, 1,
      [&](const Tensors& in) {
        return Call("grouped_lora_linear", {in[0], weight, bias, offsets, in[1], in[2], 2.0});
      },
      [&](const Tensors& in) {
        Tensors rows;
        int64_t row = 0;
        for (int64_t e = 0; e < 4; ++e) {
          const Tensor x = in[0].narrow(0, row, counts[static_cast<size_t>(e)]);
          row += x.size(0);
          rows.push_back(at::linear(x, weight.select(0, e).to(x.scalar_type()),
                                    bias.select(0, e).to(x.scalar_type())) +
                         2.0 * at::linear(at::linear(x, in[1].select(0, e)), in[2].select(0, e)));
        }
        return Tensors{at::cat(rows)};
      });
}

// Values of E2M1 under scales of their own: what comes back is what was given, by rows.
TEST_F(OpsTest, Mxfp4AndBack) {
  const Tensor values = at::tensor({0.0f, 0.5f, -1.0f, 1.5f, -2.0f, 3.0f, 4.0f, -6.0f});
  const Tensor scale = at::tensor({0.25f, 1.0f, 8.0f, 1024.0f, 0x1p-100f, 2.0f}).view({2, 3, 1});
  const Tensor x = (values.repeat({4}) * scale).repeat({1, 1, 2});
  const Tensors quantized = Call("mxfp4_quantize", {x});
  EXPECT_EQ(quantized[0].sizes(), (std::vector<int64_t>{2, 3, 32}));
  EXPECT_EQ(quantized[1].sizes(), (std::vector<int64_t>{2, 3, 2}));
  for (const bool bfloat16 : {false, true}) {
    const Tensor back = Call("mxfp4_dequantize", {quantized[0], quantized[1], bfloat16})[0];
    EXPECT_EQ(back.scalar_type(), bfloat16 ? at::kBFloat16 : at::kFloat);
    EXPECT_TRUE(at::equal(back.to(at::kFloat), x));
  }
}

TEST_F(OpsTest, Fp8Blocks) {
  const Tensor ones = at::full({130, 140}, 0x38, at::kByte);  // 1
  ones.narrow(0, 129, 1).fill_(0xc4);                         // -3
  const Tensor scales = at::tensor({0.5f, 3.0f, 5.0f, 7.0f}).view({2, 2});
  const Tensor out = Call("fp8_blocks_dequantize", {ones, scales, false})[0];
  EXPECT_EQ(out[0][0].item<float>(), 0.5f);
  EXPECT_EQ(out[127][128].item<float>(), 3.0f);
  EXPECT_EQ(out[128][127].item<float>(), 5.0f);
  EXPECT_EQ(out[129][139].item<float>(), -21.0f);
}

TEST_F(OpsTest, RefusesWhatTheKernelsDoNotTake) {
  EXPECT_THROW(Call("swiglu", {at::zeros({2, 3}, at::kFloat)}), c10::Error);
  EXPECT_THROW(Call("swiglu", {at::zeros({2, 4}, at::kDouble)}), c10::Error);
  EXPECT_THROW(Call("swiglu", {at::zeros({2, 4}, at::kBFloat16)}), c10::Error);
  EXPECT_THROW(Call("rms_norm", {at::zeros({2, 4}), at::zeros({3}), 1e-5, 0.0}), c10::Error);
}

}  // namespace
}  // namespace coxswain::kernels
