#include "worker/engine/needed_gradients.h"

#include "common/model/block.h"

namespace coxswain::engine {
namespace {

bool Trained(const Linear& linear) {
  return linear.weight.gradient != nullptr || linear.bias.gradient != nullptr ||
         linear.adapters.a.gradient != nullptr;
}

bool Trained(const Norm& norm) {
  return norm.weight.gradient != nullptr || norm.bias.gradient != nullptr;
}

}  // namespace

NeededGradients GradientNeeds::Through(const model::Row& in, const model::Row& out, bool trained) {
  const bool of_input = needed_[in];
  needed_[out] = of_input || trained;
  return {of_input, needed_[out]};
}

NeededGradients GradientNeeds::Visit(const model::Op& op, int64_t layer) {
  const Block& block = model_.blocks[static_cast<size_t>(layer)];
  if (layer == 0 && needed_.empty()) {
    needed_[model::BlockInput(0)] =
        model_.embedding.gradient != nullptr || model_.embedding_adapter.a.gradient != nullptr;
  }
  if (const auto* norm = std::get_if<model::NormOp>(&op)) {
    return Through(norm->in, norm->out, Trained(block.norms.at(norm->weight)));
  }
  if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
    const bool before = linear->adds && needed_[linear->out];
    const NeededGradients needs =
        Through(linear->in, linear->out, Trained(block.linear(linear->pack)));
    needed_[linear->out] = needs.of_output || before;
    return needs;
  }
  if (const auto* norm = std::get_if<model::QkNormOp>(&op)) {
    return Through(norm->qkv, norm->qkv, block.q_norm.gradient != nullptr);
  }
  if (const auto* rotate = std::get_if<model::RotateOp>(&op)) {
    return Through(rotate->qkv, rotate->qkv, false);
  }
  if (const auto* attention = std::get_if<model::AttentionOp>(&op)) {
    return Through(attention->qkv, attention->out, false);
  }
  if (const auto* gate = std::get_if<model::GateOp>(&op)) {
    return Through(gate->in, gate->out, false);
  }
  if (const auto* activation = std::get_if<model::ActivationOp>(&op)) {
    return Through(activation->in, activation->out, false);
  }
  const auto& add = std::get<model::AddOp>(op);
  return Through(add.stream, add.out, needed_[add.branch]);
}

}  // namespace coxswain::engine
