// The fields of every op as a tuple of references, in the order in which they travel.
#ifndef COXSWAIN_COMMON_MODEL_OP_FIELDS_H_
#define COXSWAIN_COMMON_MODEL_OP_FIELDS_H_

#include <concepts>
#include <tuple>
#include <type_traits>

#include "common/model/ops.h"

namespace coxswain::model {

// Of an op or a part of one, const or not. A field that is missing here does not reach the workers:
// plan_bytes_test holds every field of every op against its way through the bytes.
template <typename T, typename Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

template <typename T>
auto Fields(T& op) {
  if constexpr (Is<T, Heads>) {
    return std::tie(op.queries, op.keys, op.width, op.value);
  } else if constexpr (Is<T, Routed>) {
    return std::tie(op.route, op.chosen);
  } else if constexpr (Is<T, LinearMember>) {
    return std::tie(op.weight, op.bias, op.rows);
  } else if constexpr (Is<T, NormOp>) {
    return std::tie(op.id, op.in, op.out, op.rstd, op.mean, op.weight, op.bias, op.width, op.eps,
                    op.from_one);
  } else if constexpr (Is<T, LinearOp>) {
    return std::tie(op.id, op.name, op.site, op.in, op.out, op.in_features, op.out_features,
                    op.members, op.adds, op.feeds_activation);
  } else if constexpr (Is<T, QkNormOp>) {
    return std::tie(op.id, op.qkv, op.raw, op.rstd, op.whole, op.q_weight, op.k_weight, op.heads,
                    op.eps, op.from_one);
  } else if constexpr (Is<T, RotateOp>) {
    return std::tie(op.id, op.qkv, op.rope, op.heads, op.rotated, op.interleaved);
  } else if constexpr (Is<T, AttentionOp>) {
    return std::tie(op.id, op.qkv, op.out, op.lse, op.heads, op.window, op.scale, op.softcap,
                    op.sinks);
  } else if constexpr (Is<T, GateOp>) {
    return std::tie(op.id, op.in, op.out, op.width, op.activation, op.alpha, op.limit, op.routed);
  } else if constexpr (Is<T, ActivationOp>) {
    return std::tie(op.id, op.in, op.out, op.width, op.activation);
  } else if constexpr (Is<T, AddOp>) {
    return std::tie(op.id, op.stream, op.branch, op.out, op.width);
  } else if constexpr (Is<T, RouteOp>) {
    return std::tie(op.id, op.in, op.logits, op.weights, op.ids, op.order, op.places, op.offsets,
                    op.counts, op.weight, op.bias, op.correction, op.width, op.experts, op.chosen,
                    op.groups, op.top_groups, op.score, op.renormalise, op.scale);
  } else if constexpr (Is<T, SigmoidGateOp>) {
    return std::tie(op.id, op.in, op.logit, op.out, op.width);
  } else if constexpr (Is<T, SplitOp>) {
    return std::tie(op.id, op.in, op.first, op.second, op.first_width, op.second_width);
  } else if constexpr (Is<T, LatentHeadsOp>) {
    return std::tie(op.id, op.q, op.kv, op.k_rope, op.out, op.rope, op.heads, op.rotated,
                    op.interleaved);
  } else if constexpr (Is<T, GroupedLinearOp>) {
    return std::tie(op.id, op.routed, op.name, op.in, op.out, op.weight, op.bias, op.experts,
                    op.in_features, op.out_features, op.feeds_activation);
  } else {
    static_assert(Is<T, DispatchOp> || Is<T, CombineOp>);
    return std::tie(op.id, op.routed, op.in, op.out, op.width);
  }
}

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_OP_FIELDS_H_
