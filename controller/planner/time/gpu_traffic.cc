#include "controller/planner/time/gpu_traffic.h"

#include <algorithm>
#include <variant>

#include "common/model/parameter.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/plan/fusions/fused_ops.h"
#include "controller/planner/time/block_products.h"

namespace coxswain::planner {
namespace {

using model::Parameter;

struct OpTouched {
  double forward = 0, backward = 0;
};

// Elements that an op other than products and attention reads and writes, per token: norms (2H, 4H
// with the add before them; backward 4H, into what flows past), sums (5H, what a product adds H),
// RoPE (q and k in place) where no product or attention turns them, gated products (3I; backward
// 5I), activations without a gate (2I; 3I), the rows of experts and of their tokens (backward of
// their sum reads and writes the rows), rows that a gate scales and adds (3H; 3H), and the rows of
// latent attention.
struct OpTraffic {
  OpTouched operator()(const model::NormOp& op) const {
    const auto width = static_cast<double>(op.width);
    return {2 * width, 4 * width};
  }
  OpTouched operator()(const model::AddOp& op) const {
    return {5 * static_cast<double>(op.width), 0};
  }
  OpTouched operator()(const model::LinearAddOp& both) const {
    return {static_cast<double>(both.add.width), 0};
  }
  OpTouched operator()(const model::RotateOp& op) const {
    const auto rotated = static_cast<double>(op.heads.query_width() + op.heads.key_width());
    return {2 * rotated, 2 * rotated};
  }
  OpTouched operator()(const model::GateOp& op) const {
    const int64_t rows = std::max<int64_t>(1, op.routed.chosen);
    const auto inner = static_cast<double>(rows * op.width);
    return {3 * inner, 5 * inner};
  }
  OpTouched operator()(const model::ActivationOp& op) const {
    const auto inner = static_cast<double>(op.width);
    return {2 * inner, 3 * inner};
  }
  OpTouched operator()(const model::AddNormOp& both) const {
    return {4 * static_cast<double>(both.add.width), 0};
  }
  OpTouched operator()(const model::DispatchOp& op) const { return Permuted(op.routed, op.width); }
  OpTouched operator()(const model::CombineOp& op) const {
    const OpTouched rows = Permuted(op.routed, op.width);
    return {rows.forward, 2 * rows.backward};
  }
  OpTouched operator()(const model::SigmoidGateOp& op) const {
    const auto width = static_cast<double>(op.width);
    return {3 * width, 3 * width};
  }
  OpTouched operator()(const model::SplitOp& op) const {
    const auto width = static_cast<double>(op.first_width + op.second_width);
    return {2 * width, 2 * width};
  }
  OpTouched operator()(const model::LatentHeadsOp& op) const {
    const auto rows = static_cast<double>(op.heads.query_width() + op.kv_width() + op.heads.row());
    return {rows, rows};
  }
  // The product reads and writes what it would alone, and writes y.
  OpTouched operator()(const model::GatedLinearOp& both) const {
    return {kNotHidden * static_cast<double>(both.gate.width), 0};
  }
  OpTouched operator()(const model::GroupedGatedLinearOp& both) const {
    const int64_t rows = std::max<int64_t>(1, both.gate.routed.chosen);
    return {static_cast<double>(rows * both.gate.width), 0};
  }
  // Alone it writes the gradient of y; here it reads gate and up and writes both gradients.
  OpTouched operator()(const model::GateDownOp& both) const {
    return {0, 3 * kNotHidden * static_cast<double>(both.gate.width)};
  }
  template <typename ProductOrAttention>
  OpTouched operator()(const ProductOrAttention& /*op*/) const {
    return {};
  }

 private:
  // Of what a dense product does in addition.
  static constexpr double kNotHidden = 0.6;

  static OpTouched Permuted(const model::Routed& routed, int64_t width) {
    const auto rows = static_cast<double>((routed.chosen + 1) * width);
    return {rows, rows};
  }
};

// Of all blocks.
OpTouched BlockTraffic(const plan::Plan& plan) {
  const plan::OpLists lists = plan::OpListsOf(plan);
  const OpTraffic traffic;
  OpTouched sum;
  for (size_t layer = 0; layer < lists.backward.size(); ++layer) {
    for (const model::Op& op : lists.forward[layer]) sum.forward += std::visit(traffic, op).forward;
    for (const model::Op& op : lists.backward[layer]) {
      sum.backward += std::visit(traffic, op).backward;
    }
  }
  return sum;
}

// How often forward and backward read and write the input of an adapter's A and the output of its
// B, but for what the products of the linear hide.
constexpr double kAdapterPasses = 1, kAdapterPassesBack = 1.7;

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

}  // namespace

// All that is neither product nor attention: the ops of the blocks, the column sum
// of a bias gradient, each adapted linear (its input, output and their gradients twice; of experts
// those that a token has), and cross-entropy over the vocabulary (read, read and written). DoRA
// reads and writes the output of an adapted linear once more, and its output, gradient and scaled
// gradient.
Touched TouchedPerToken(const plan::Plan& plan) {
  const model::ModelConfig& m = plan.model;
  const auto layers = static_cast<double>(m.num_layers);
  const OpTouched blocks = BlockTraffic(plan);
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
    backward += kAdapterPassesBack * width;
  }
  const double again = plan.recompute == RecomputeLevel::kBlock ? forward : AgainTraffic(plan);
  forward += static_cast<double>(m.head_rows());
  backward += 2 * static_cast<double>(m.head_rows());
  return {.forward = forward, .backward = backward, .again = again};
}

}  // namespace coxswain::planner
