#include "worker/engine/memory/needed_gradients.h"

#include <type_traits>

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

template <typename Op>
NeededGradients GradientNeeds::Of(const Op& op, const Block& block) {
  if constexpr (std::is_same_v<Op, model::NormOp>) {
    return Through(op.in, op.out, Trained(block.norms.at(op.id)));
  } else if constexpr (std::is_same_v<Op, model::LinearOp>) {
    const bool before = op.adds && needed_[op.out];
    const NeededGradients needs = Through(op.in, op.out, Trained(block.linears.at(op.id)));
    needed_[op.out] = needs.of_output || before;
    return needs;
  } else if constexpr (std::is_same_v<Op, model::QkNormOp>) {
    return Through(op.qkv, op.qkv, block.qk_norms.at(op.id).q.gradient != nullptr);
  } else if constexpr (std::is_same_v<Op, model::RotateOp>) {
    return Through(op.qkv, op.qkv, false);
  } else if constexpr (std::is_same_v<Op, model::AttentionOp>) {
    return Through(op.qkv, op.out, block.sinks.at(op.id).gradient != nullptr);
  } else if constexpr (std::is_same_v<Op, model::SplitOp>) {
    needed_[op.second] = needed_[op.in];
    return Through(op.in, op.first, false);
  } else if constexpr (std::is_same_v<Op, model::LatentHeadsOp>) {
    return Through(op.q, op.out, needed_[op.kv] || needed_[op.k_rope]);
  } else if constexpr (std::is_same_v<Op, model::AddOp>) {
    return Through(op.stream, op.out, needed_[op.branch]);
  } else if constexpr (std::is_same_v<Op, model::RouteOp>) {
    weights_[op.id] = op.weights;
    const Router& router = block.routers.at(op.id);
    return Through(op.in, op.weights,
                   router.weight.gradient != nullptr || router.bias.gradient != nullptr ||
                       router.a.gradient != nullptr);
  } else if constexpr (std::is_same_v<Op, model::GroupedLinearOp>) {
    const ExpertLinear& experts = block.experts.at(op.id);
    return Through(op.in, op.out,
                   experts.weight.gradient != nullptr || experts.bias.gradient != nullptr ||
                       experts.a.gradient != nullptr);
  } else if constexpr (std::is_same_v<Op, model::CombineOp>) {
    const bool of_weights = needed_[weights_.at(op.routed.route)];
    NeededGradients needs = Through(op.in, op.out, of_weights);
    needs.of_weights = of_weights;
    return needs;
  } else if constexpr (std::is_same_v<Op, model::SigmoidGateOp>) {
    const bool before = needed_[op.out], of_logits = needed_[op.logit];
    NeededGradients needs = Through(op.in, op.out, before || of_logits);
    needs.of_weights = of_logits;
    return needs;
  } else {
    return Through(op.in, op.out, false);
  }
}

NeededGradients GradientNeeds::Visit(const model::PlainOp& op, int64_t layer) {
  if (layer == 0 && needed_.empty()) {
    needed_[model::BlockInput(0)] =
        model_.embedding.gradient != nullptr || model_.embedding_adapter.a.gradient != nullptr;
  }
  const Block& block = model_.blocks[static_cast<size_t>(layer)];
  return std::visit([&](const auto& plain) { return Of(plain, block); }, op);
}

}  // namespace coxswain::engine
