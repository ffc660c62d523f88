#include "controller/planner/time/gpu_time.h"

#include <algorithm>
#include <string_view>

#include "common/model/flops.h"
#include "common/plan/gradient_sum.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"
#include "controller/planner/memory/attention_kernels.h"
#include "controller/planner/time/block_products.h"
#include "controller/planner/time/fp8_time.h"
#include "controller/planner/time/gpu_traffic.h"
#include "controller/planner/time/product_shares.h"

namespace coxswain::planner {
namespace {

using model::Parameter;

// Seconds of a query element (token x heads x head_dim) where products run at kLinesFlopsPerSecond:
// fixed + span x per position. Lines through the times of documents of 1,024 and 8,192 tokens.
// Source: gpu_bench on one H100,
// bench/results/h100_attention.json, causal, 32,768 tokens, 14/2 heads x 64 and 28/4 heads x 128,
// ms of 1,024 | 8,192 tokens: 64: forward 0.196 | 1.002, backward 0.514 | 3.001, the same where
// bits need not repeat; 128: forward 0.495 | 3.112, backward 1.771 | 11.91, cuDNN's with atomics
// 9.556 of the latter.
struct Line {
  double fixed = 0, per_position = 0;
  double At(double span) const { return fixed + span * per_position; }
};
struct AttentionLines {
  Line forward, backward, unordered_backward;
};
constexpr AttentionLines kNarrowHeads = {
    {2.74e-12, 3.83e-15}, {5.40e-12, 1.182e-14}, {5.40e-12, 1.182e-14}};
constexpr AttentionLines kWideHeads = {
    {1.03e-12, 3.11e-15}, {2.75e-12, 1.205e-14}, {5.61e-12, 9.25e-15}};
// Our kernels alone, which have one backward, of 1,024 and 2,048 tokens. Source: gpu_bench on one
// H100, bench/results/papers_attention.json, 16,384 tokens, 8/4 heads x 256, ms of 1,024 | 2,048
// tokens: forward 0.1747 | 0.2754, backward 0.6205 | 1.0636.
constexpr AttentionLines kWidestHeads = {
    {2.21e-12, 2.931e-15}, {5.29e-12, 1.290e-14}, {5.29e-12, 1.290e-14}};

const AttentionLines& LinesOf(int64_t head_dim) {
  if (head_dim <= 64) return kNarrowHeads;
  return head_dim <= 128 ? kWideHeads : kWidestHeads;
}

// Of the H100 of these files; and how much longer attention takes among the products of a step,
// which leave less power for it.
constexpr double kLinesFlopsPerSecond = 685e12, kLongerInAStep = 1.09;

// Forward in FP8, with its codes made; narrower heads run as those of 128. Source: gpu_bench on one
// H200, bench/results/h200_fp8_kernels.json, 32,768 tokens, 32/8 heads x 128, ms of 8,192 | 32,768
// tokens: 3.073 | 11.514.
constexpr Line kFp8Forward = {1.94e-12, 2.559e-15};
constexpr int64_t kFp8HeadWidth = 128;

struct SecondsPerToken {
  double forward = 0, backward = 0, again = 0;  // `again`: recomputation in backward
};

double ProductRate(const plan::Plan& plan, const GpuRates& rates) {
  return rates.product_flops_per_second *
         (plan.compute_dtype == Precision::kBfloat16 ? 1 : kFloat32Share);
}

// Products of experts, and gradients of weights, in bfloat16: what they take beyond others.
SecondsPerToken SlowerProducts(const plan::Plan& plan, const BlockProducts& products,
                               double weight_gradients, const GpuRates& rates) {
  const bool trained = std::any_of(
      plan.parameters.begin(), plan.parameters.end(),
      [](const auto& p) { return model::IsBase(p, model::Kind::kExperts) && p.trainable(); });
  const double grouped = 2 * (1 / kGroupedShare - 1) / rates.product_flops_per_second;
  const double others = weight_gradients - (trained ? 2 * products.experts : 0);
  return {.forward = products.experts * grouped,
          .backward = (trained ? 2 : 1) * products.experts * grouped +
                      others * (1 / kWeightGradientShare - 1) / rates.product_flops_per_second,
          .again = products.experts_again * grouped};
}

SecondsPerToken Products(const plan::Plan& plan, const GpuRates& rates) {
  const model::FlopsPerToken all = model::TrainingFlops(plan.model, plan.parameters, 0);
  const double forward = model::ForwardFlopsPerToken(plan.model, plan.parameters, 0);
  const double head =
      2 * static_cast<double>(plan.model.head_rows()) * static_cast<double>(plan.model.hidden_size);
  const double rate = ProductRate(plan, rates);
  SecondsPerToken seconds{.forward = forward / rate, .backward = (all.total() - forward) / rate};
  const BlockProducts products = BlockProductsOf(plan);
  seconds.again = plan.recompute == RecomputeLevel::kBlock ? (forward - head) / rate
                                                           : 2 * products.again() / rate;
  if (plan.compute_dtype != Precision::kBfloat16) return seconds;
  // Backward has as many operations of gradients of inputs as forward.
  const SecondsPerToken slower = SlowerProducts(plan, products, all.total() - 2 * forward, rates);
  return {.forward = seconds.forward + slower.forward,
          .backward = seconds.backward + slower.backward,
          .again = seconds.again + slower.again};
}

// The plain kernels are counted at the rate of float32 products.
SecondsPerToken Attention(const plan::Plan& plan, int64_t attention_span, const GpuRates& rates) {
  const double slower = kLongerInAStep * kLinesFlopsPerSecond / rates.product_flops_per_second;
  const double plain_rate = kFloat32Share * rates.product_flops_per_second;
  const int64_t widths = plan.model.head_dim + plan.model.value_dim();
  const double query = static_cast<double>(plan.model.num_heads * widths) / 2;
  const AttentionLines& lines = LinesOf(plan.model.head_dim);
  const bool fp8 = plan.fp8.attention;
  const Line& forward = fp8 ? kFp8Forward : lines.forward;
  const double forward_query =
      fp8 ? static_cast<double>(plan.model.num_heads * kFp8HeadWidth) : query;
  const bool plain = std::string_view(AttentionKernelsOf(plan, 0).packed) == "plain";
  SecondsPerToken seconds;
  for (const int64_t window : plan.model.layer_windows) {
    const auto span =
        static_cast<double>(window > 0 ? std::min(window, attention_span) : attention_span);
    if (plain) {
      seconds.forward += 4 * query * span / plain_rate;
      seconds.backward += 10 * query * span / plain_rate;
      continue;
    }
    const Line& backward = plan.attention_deterministic ? lines.backward : lines.unordered_backward;
    seconds.forward += forward_query * forward.At(span) * slower;
    seconds.backward += query * backward.At(span) * slower;
  }
  if (plan.recompute == RecomputeLevel::kBlock) seconds.again = seconds.forward;
  return seconds;
}

SecondsPerToken Traffic(const plan::Plan& plan, const GpuRates& rates) {
  const Touched touched = TouchedPerToken(plan);
  const double seconds = plan::ComputeBytes(plan) / rates.copy_bytes_per_second;
  return {.forward = touched.forward * seconds,
          .backward = touched.backward * seconds,
          .again = touched.again * seconds};
}

// Operands of products.
bool Multiplies(const plan::Plan& plan, const Parameter& p) {
  const bool head = model::IsHead(p) || (model::IsEmbedding(p) && plan.model.tie_embeddings);
  return model::IsLinear(p) || head;
}

struct MicroStepSeconds {
  double forward = 0, backward = 0;  // backward with recomputation
};

// What a sum that is not to nearest moves of an element beside the gradient: the term, written and
// read, and a companion. It is a launch of its own, which no product hides.
double SumBytes(const plan::Plan& plan) {
  if (plan.gradient_sum == plan::GradientSum::kNearest) return 0;
  return plan.gradient_sum == plan::GradientSum::kCompensated ? 12 : 8;
}

// Every product reads its weights once, whatever the tokens, and adds to a gradient that it reads
// and writes. Products of many tokens hide a part of that.
MicroStepSeconds WeightTraffic(const plan::Plan& plan, const GpuRates& rates) {
  constexpr double kNotHidden = 0.7, kGradientsNotHidden = 0.35;
  const BlockProducts products = BlockProductsOf(plan);
  const double element = kNotHidden * static_cast<double>(plan::ComputeBytes(plan));
  double dense = 0, experts = 0, in_blocks = 0, gradients = 0, sums = 0;
  for (const Parameter& p : plan.parameters) {
    if (!Multiplies(plan, p)) continue;
    const auto elements = static_cast<double>(p.elements());
    (p.kind == model::Kind::kExperts ? experts : dense) += elements;
    if (model::IsLinear(p) && p.kind != model::Kind::kExperts) in_blocks += elements;
    if (!p.trainable()) continue;
    const plan::Storage gradient = *plan::StorageOf(plan, p).gradient;
    gradients += 2 * static_cast<double>(plan::StorageBytes(gradient, p.elements()));
    if (plan::IsSummedInBfloat16(plan, p)) sums += SumBytes(plan) * elements;
  }
  double again = plan.recompute == RecomputeLevel::kBlock ? in_blocks : products.linears_again;
  if (products.experts > 0) again += experts * products.experts_again / products.experts;
  const double once = element * (dense + experts) / rates.copy_bytes_per_second;
  return {.forward = once,
          .backward = once + (element * again + kGradientsNotHidden * gradients + sums) /
                                 rates.copy_bytes_per_second};
}

// States read and written; the gradient cleared where no product writes it, read by the norm and by
// the update; the master read and written and the weights written, or the weights themselves read
// and written. DoRA reads every weight of an adapted linear once for the norms of its rows.
double UpdateSeconds(const plan::Plan& plan, const GpuRates& rates) {
  const plan::Optimizer& optimizer = plan::OptimizerOf(plan);
  const std::vector<bool> in_blocks = plan::InBlocks(plan);
  double bytes = 0;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Parameter& p = plan.parameters[i];
    if (!p.trainable()) continue;
    const plan::ParameterStorage storage = plan::StorageOf(plan, p);
    const int64_t weights = plan::StorageBytes(storage.weights, 1);
    const int64_t values =
        storage.master.has_value() ? 2 * plan::StorageBytes(*storage.master, 1) : weights;
    const int64_t gradient = plan::StorageBytes(*storage.gradient, 1);
    const int64_t passes = plan::IsWrittenByProduct(plan, p) ? 2 : 3;
    bytes += static_cast<double>(2 * plan::StateBytes(optimizer, p.elements(), in_blocks[i]) +
                                 p.elements() * (passes * gradient + values + weights));
  }
  for (const Parameter& p : plan.parameters) {
    if (!model::IsMagnitude(p)) continue;
    const auto base =
        std::find_if(plan.parameters.begin(), plan.parameters.end(), [&p](const Parameter& other) {
          return model::IsLinear(other) && model::IsAdapterOf(p, other);
        });
    bytes += static_cast<double>(plan::ComputeBytes(plan) * base->elements());
  }
  return bytes / rates.copy_bytes_per_second;
}

// The logits of a cut head once more; a loss of documents computes them again with either head.
double CutHeadSeconds(const plan::Plan& plan, const GpuRates& rates) {
  if (plan.lm_head_panel_bytes == 0 || plan.weighs_rows()) return 0;
  return 2 * static_cast<double>(plan.model.vocab_size * plan.model.hidden_size) /
         ProductRate(plan, rates);
}

// What a loss of documents or of a policy computes beside: the forward of its reference, and the
// head's forward once more, whose logits wait for the loss of all documents.
double DocumentLossSeconds(const plan::Plan& plan, double forward, const GpuRates& rates) {
  if (!plan.weighs_rows()) return 0;
  const auto vocab = static_cast<double>(plan.model.vocab_size);
  const double head =
      2 * vocab * static_cast<double>(plan.model.hidden_size) / ProductRate(plan, rates) +
      vocab * static_cast<double>(plan::ComputeBytes(plan)) / rates.copy_bytes_per_second;
  return head + (plan.document_loss.reference == "base" ? forward : 0);
}

}  // namespace

GpuTime PredictGpuTime(const plan::Plan& plan, int64_t attention_span, const GpuRates& rates) {
  GpuTime time;
  for (const SecondsPerToken& seconds :
       {Products(plan, rates), Attention(plan, attention_span, rates), Traffic(plan, rates)}) {
    time.token += seconds.forward + seconds.backward + seconds.again;
    time.forward_token += seconds.forward;
  }
  time.token += CutHeadSeconds(plan, rates);
  const double documents = DocumentLossSeconds(plan, time.forward_token, rates);
  time.token += documents;
  const Fp8Seconds fp8 = Fp8SecondsOf(plan, rates);
  time.token += fp8.forward_token + fp8.backward_token + fp8.again_token;
  time.forward_token += fp8.forward_token;
  const MicroStepSeconds weights = WeightTraffic(plan, rates);
  const int forwards = plan.document_loss.reference == "base" ? 2 : 1;
  time.forward_token *= forwards;
  time.forward_micro_step = forwards * (weights.forward + fp8.forward_micro_step);
  time.micro_step = time.forward_micro_step + weights.backward + fp8.backward_micro_step;
  time.step = UpdateSeconds(plan, rates) + fp8.step;
  return time;
}

}  // namespace coxswain::planner
