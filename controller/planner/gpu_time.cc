#include "controller/planner/gpu_time.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "common/model/flops.h"
#include "common/plan/activation_rows.h"
#include "common/plan/fused_ops.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"
#include "controller/planner/attention_kernels.h"
#include "controller/planner/block_products.h"

namespace coxswain::planner {
namespace {

using model::Parameter;

// Seconds of a query element (token x heads x head_dim): fixed + span x per position. Lines through
// the times of documents of 1,024 and 8,192 tokens. Source: gpu_bench on one H100,
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

struct SecondsPerToken {
  double forward = 0, backward = 0, again = 0;  // `again`: recomputation in backward
};

// What products of experts in bfloat16 take beyond kBfloat16FlopsPerSecond.
SecondsPerToken SlowerExperts(const plan::Plan& plan, const BlockProducts& products) {
  const bool trained = std::any_of(
      plan.parameters.begin(), plan.parameters.end(),
      [](const auto& p) { return model::IsBase(p, model::Kind::kExperts) && p.trainable(); });
  const double element = 2 * (1 / kGroupedFlopsPerSecond - 1 / kBfloat16FlopsPerSecond);
  return {.forward = products.experts * element,
          .backward = (trained ? 2 : 1) * products.experts * element,
          .again = products.experts_again * element};
}

SecondsPerToken Products(const plan::Plan& plan) {
  const model::FlopsPerToken all = model::TrainingFlops(plan.model, plan.parameters, 0);
  const double forward = model::ForwardFlopsPerToken(plan.model, plan.parameters, 0);
  const double head =
      2 * static_cast<double>(plan.model.head_rows()) * static_cast<double>(plan.model.hidden_size);
  const double rate =
      plan.compute_dtype == "bfloat16" ? kBfloat16FlopsPerSecond : kFloat32FlopsPerSecond;
  SecondsPerToken seconds{.forward = forward / rate, .backward = (all.total() - forward) / rate};
  const BlockProducts products = BlockProductsOf(plan);
  seconds.again = plan.recompute == "block" ? (forward - head) / rate : 2 * products.again() / rate;
  if (plan.compute_dtype != "bfloat16") return seconds;
  const SecondsPerToken slower = SlowerExperts(plan, products);
  return {.forward = seconds.forward + slower.forward,
          .backward = seconds.backward + slower.backward,
          .again = seconds.again + slower.again};
}

// The plain kernels are counted at the rate of float32 products.
SecondsPerToken Attention(const plan::Plan& plan, int64_t attention_span) {
  const int64_t widths = plan.model.head_dim + plan.model.value_dim();
  const double query = static_cast<double>(plan.model.num_heads * widths) / 2;
  const AttentionLines& lines = LinesOf(plan.model.head_dim);
  const bool plain = std::string_view(AttentionKernelsOf(plan, 0).packed) == "plain";
  SecondsPerToken seconds;
  for (const int64_t window : plan.model.layer_windows) {
    const auto span =
        static_cast<double>(window > 0 ? std::min(window, attention_span) : attention_span);
    if (plain) {
      seconds.forward += 4 * query * span / kFloat32FlopsPerSecond;
      seconds.backward += 10 * query * span / kFloat32FlopsPerSecond;
      continue;
    }
    seconds.forward += query * lines.forward.At(span);
    seconds.backward +=
        query * (plan.attention_deterministic ? lines.backward : lines.unordered_backward).At(span);
  }
  if (plan.recompute == "block") seconds.again = seconds.forward;
  return seconds;
}

// Elements read and written.
struct Touched {
  double forward = 0, backward = 0;
};

// Elements that an op other than products and attention reads and writes, per token: norms (2H, 4H
// with the add before them; backward 4H, into what flows past), sums (5H, what a product adds H),
// RoPE (q and k in place) where no product or attention turns them, gated products (3I; backward
// 5I), activations without a gate (2I; 3I), the rows of experts and of their tokens (backward of
// their sum reads and writes the rows), rows that a gate scales and adds (3H; 3H), and the rows of
// latent attention.
struct OpTraffic {
  Touched operator()(const model::NormOp& op) const {
    const auto width = static_cast<double>(op.width);
    return {2 * width, 4 * width};
  }
  Touched operator()(const model::AddOp& op) const {
    return {5 * static_cast<double>(op.width), 0};
  }
  Touched operator()(const model::LinearAddOp& both) const {
    return {static_cast<double>(both.add.width), 0};
  }
  Touched operator()(const model::RotateOp& op) const {
    const auto rotated = static_cast<double>(op.heads.query_width() + op.heads.key_width());
    return {2 * rotated, 2 * rotated};
  }
  Touched operator()(const model::GateOp& op) const {
    const int64_t rows = std::max<int64_t>(1, op.routed.chosen);
    const auto inner = static_cast<double>(rows * op.width);
    return {3 * inner, 5 * inner};
  }
  Touched operator()(const model::ActivationOp& op) const {
    const auto inner = static_cast<double>(op.width);
    return {2 * inner, 3 * inner};
  }
  Touched operator()(const model::AddNormOp& both) const {
    return {4 * static_cast<double>(both.add.width), 0};
  }
  Touched operator()(const model::DispatchOp& op) const { return Permuted(op.routed, op.width); }
  Touched operator()(const model::CombineOp& op) const {
    const Touched rows = Permuted(op.routed, op.width);
    return {rows.forward, 2 * rows.backward};
  }
  Touched operator()(const model::SigmoidGateOp& op) const {
    const auto width = static_cast<double>(op.width);
    return {3 * width, 3 * width};
  }
  Touched operator()(const model::SplitOp& op) const {
    const auto width = static_cast<double>(op.first_width + op.second_width);
    return {2 * width, 2 * width};
  }
  Touched operator()(const model::LatentHeadsOp& op) const {
    const auto rows = static_cast<double>(op.heads.query_width() + op.kv_width() + op.heads.row());
    return {rows, rows};
  }
  Touched operator()(const model::GatedLinearOp& both) const { return (*this)(both.gate); }
  // The product reads and writes what it would alone, and writes y.
  Touched operator()(const model::GroupedGatedLinearOp& both) const {
    const int64_t rows = std::max<int64_t>(1, both.gate.routed.chosen);
    return {static_cast<double>(rows * both.gate.width), 0};
  }
  Touched operator()(const model::GateDownOp& both) const { return (*this)(both.gate); }
  template <typename ProductOrAttention>
  Touched operator()(const ProductOrAttention& /*op*/) const {
    return {};
  }

 private:
  static Touched Permuted(const model::Routed& routed, int64_t width) {
    const auto rows = static_cast<double>((routed.chosen + 1) * width);
    return {rows, rows};
  }
};

// Of all blocks.
Touched BlockTraffic(const plan::Plan& plan) {
  const plan::OpLists lists = plan::OpListsOf(plan);
  const OpTraffic traffic;
  Touched sum;
  for (size_t layer = 0; layer < lists.backward.size(); ++layer) {
    for (const model::Op& op : lists.forward[layer]) sum.forward += std::visit(traffic, op).forward;
    for (const model::Op& op : lists.backward[layer]) {
      sum.backward += std::visit(traffic, op).backward;
    }
  }
  return sum;
}

// What forward reads and writes of the input of an adapter's A and the output of its B.
constexpr double kAdapterPasses = 1.5;

// Of all blocks, below recompute "block".
double AgainTraffic(const plan::Plan& plan) {
  const OpTraffic traffic;
  double sum = 0;
  if (plan.lora.rank > 0) {
    sum =
        kAdapterPasses * BlockProductsOf(plan).adapters_again / static_cast<double>(plan.lora.rank);
  }
  for (const model::Block& block : plan.architecture.blocks) {
    for (const model::PlainOp& op : block.ops) {
      if (!plan::ComputesAgain(plan, plan::AgainOf(op))) continue;
      sum += std::visit(traffic, op).forward;
    }
  }
  return sum;
}

// All that is neither product nor attention: the ops of the blocks, the column sum
// of a bias gradient, each adapted linear (its input, output and their gradients twice; of experts
// those that a token has), and cross-entropy over the vocabulary (read, read and written). DoRA
// reads and writes the output of an adapted linear once more, and its output, gradient and scaled
// gradient.
SecondsPerToken Traffic(const plan::Plan& plan) {
  const model::ModelConfig& m = plan.model;
  const auto layers = static_cast<double>(m.num_layers);
  const Touched blocks = BlockTraffic(plan);
  const auto rotated = static_cast<double>((m.num_heads + m.num_kv_heads) * m.head_dim);
  const auto kv = static_cast<double>(m.num_kv_heads * m.head_dim);
  const auto rank = static_cast<double>(plan.lora.rank);
  double forward = blocks.forward, backward = blocks.backward;
  if (m.qkv_bias && plan.lora.rank == 0) backward += layers * (rotated + kv);
  for (const Parameter& p : plan.parameters) {
    if (!model::IsAdapter(p)) continue;
    if (model::IsMagnitude(p)) {
      forward += 2 * static_cast<double>(p.elements());
      backward += 3 * static_cast<double>(p.elements());
      continue;
    }
    if (model::AdaptsEmbedding(p) && model::IsLoraA(p)) continue;
    double width = static_cast<double>(p.elements()) / rank;
    if (p.kind == model::Kind::kExperts) {
      const int64_t own = model::IsLoraA(p) ? p.rows / p.batch : p.cols;
      width = static_cast<double>(m.mixture.chosen * (p.elements() / p.batch / own));
    }
    forward += kAdapterPasses * width;
    backward += 2.5 * width;
  }
  const double again = plan.recompute == "block" ? forward : AgainTraffic(plan);
  forward += static_cast<double>(m.head_rows());
  backward += 2 * static_cast<double>(m.head_rows());
  const double seconds = plan::ComputeBytes(plan) / kBytesPerSecond;
  return {.forward = forward * seconds, .backward = backward * seconds, .again = again * seconds};
}

// States read and written; the gradient cleared where no product writes it, read by the norm and by
// the update; the master read and written and the weights written, or the weights themselves read
// and written. DoRA reads every weight of an adapted linear once for the norms of its rows.
double UpdateSeconds(const plan::Plan& plan) {
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
  return bytes / kBytesPerSecond;
}

// The logits of a cut head once more; a loss of documents computes them again with either head.
double CutHeadSeconds(const plan::Plan& plan) {
  if (plan.lm_head_panel_bytes == 0 || plan.weighs_rows()) return 0;
  const double rate =
      plan.compute_dtype == "bfloat16" ? kBfloat16FlopsPerSecond : kFloat32FlopsPerSecond;
  return 2 * static_cast<double>(plan.model.vocab_size * plan.model.hidden_size) / rate;
}

// What a loss of documents or of a policy computes beside: the forward of its reference, and the
// head's forward once more, whose logits wait for the loss of all documents.
double DocumentLossSeconds(const plan::Plan& plan, double forward) {
  if (!plan.weighs_rows()) return 0;
  const auto vocab = static_cast<double>(plan.model.vocab_size);
  const double rate =
      plan.compute_dtype == "bfloat16" ? kBfloat16FlopsPerSecond : kFloat32FlopsPerSecond;
  const double head = 2 * vocab * static_cast<double>(plan.model.hidden_size) / rate +
                      vocab * static_cast<double>(plan::ComputeBytes(plan)) / kBytesPerSecond;
  return head + (plan.document_loss.reference == "base" ? forward : 0);
}

}  // namespace

GpuTime PredictGpuTime(const plan::Plan& plan, int64_t attention_span) {
  GpuTime time;
  for (const SecondsPerToken& seconds :
       {Products(plan), Attention(plan, attention_span), Traffic(plan)}) {
    time.token += seconds.forward + seconds.backward + seconds.again;
    time.forward_token += seconds.forward;
  }
  time.token += CutHeadSeconds(plan);
  const double documents = DocumentLossSeconds(plan, time.forward_token);
  time.token += documents;
  if (plan.document_loss.reference == "base") time.forward_token *= 2;
  time.step = UpdateSeconds(plan);
  return time;
}

}  // namespace coxswain::planner
