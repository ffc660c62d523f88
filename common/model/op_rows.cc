#include "common/model/op_rows.h"

namespace coxswain::model {
namespace {

using Operands = std::vector<Operand>;

int64_t PerToken(const Routed& routed) { return routed.chosen > 0 ? routed.chosen : 1; }

struct ReadsOf {
  Operands operator()(const NormOp& op) const { return {{op.in, op.width}}; }
  Operands operator()(const LinearOp& op) const {
    Operands rows = {{op.in, op.in_features}};
    if (op.adds) rows.push_back({op.out, op.out_features});
    return rows;
  }
  Operands operator()(const QkNormOp& op) const { return {{op.qkv, op.heads.row()}}; }
  Operands operator()(const RotateOp& op) const { return {{op.qkv, op.heads.row()}}; }
  Operands operator()(const AttentionOp& op) const { return {{op.qkv, op.heads.row()}}; }
  Operands operator()(const GateOp& op) const {
    return {{op.in, 2 * PerToken(op.routed) * op.width}};
  }
  Operands operator()(const ActivationOp& op) const { return {{op.in, op.width}}; }
  Operands operator()(const AddOp& op) const {
    return {{op.stream, op.width}, {op.branch, op.width}};
  }
  Operands operator()(const RouteOp& op) const { return {{op.in, op.width}}; }
  Operands operator()(const DispatchOp& op) const { return {{op.in, op.width}}; }
  Operands operator()(const GroupedLinearOp& op) const {
    return {{op.in, op.routed.chosen * op.in_features}};
  }
  Operands operator()(const CombineOp& op) const { return {{op.in, op.routed.chosen * op.width}}; }
  Operands operator()(const SigmoidGateOp& op) const {
    return {{op.in, op.width}, {op.logit, 1}, {op.out, op.width}};
  }
  Operands operator()(const SplitOp& op) const {
    return {{op.in, op.first_width + op.second_width}};
  }
  Operands operator()(const LatentHeadsOp& op) const {
    return {{op.q, op.heads.query_width()}, {op.kv, op.kv_width()}, {op.k_rope, op.rotated}};
  }
};

struct WritesOf {
  Operands operator()(const NormOp& op) const {
    Operands rows = {{op.rstd, 1, RowType::kFloat32}};
    if (op.is_layer_norm()) rows.push_back({op.mean, 1, RowType::kFloat32});
    rows.push_back({op.out, op.width});
    return rows;
  }
  Operands operator()(const LinearOp& op) const {
    return op.adds ? Operands{} : Operands{{op.out, op.out_features}};
  }
  Operands operator()(const QkNormOp& op) const {
    const int64_t heads = op.heads.queries + op.heads.keys;
    return {{op.raw, heads * op.heads.width}, {op.rstd, op.whole ? 2 : heads, RowType::kFloat32}};
  }
  Operands operator()(const RotateOp& /*in place*/) const { return {}; }
  Operands operator()(const AttentionOp& op) const {
    return {{op.out, op.heads.out_width()}, {op.lse, op.heads.queries, RowType::kFloat32}};
  }
  Operands operator()(const GateOp& op) const { return {{op.out, PerToken(op.routed) * op.width}}; }
  Operands operator()(const ActivationOp& op) const { return {{op.out, op.width}}; }
  Operands operator()(const AddOp& op) const { return {{op.out, op.width}}; }
  Operands operator()(const RouteOp& op) const {
    return {{op.logits, op.experts, RowType::kFloat32},
            {op.weights, op.chosen, RowType::kFloat32},
            {op.ids, op.chosen, RowType::kInt32},
            {op.order, op.chosen, RowType::kInt32},
            {op.places, op.chosen, RowType::kInt32},
            {op.offsets, 0, RowType::kInt32, op.experts + 1},
            {op.counts, 0, RowType::kInt32, op.experts}};
  }
  Operands operator()(const DispatchOp& op) const {
    return {{op.out, op.routed.chosen * op.width}};
  }
  Operands operator()(const GroupedLinearOp& op) const {
    return {{op.out, op.routed.chosen * op.out_features}};
  }
  Operands operator()(const CombineOp& op) const { return {{op.out, op.width}}; }
  Operands operator()(const SigmoidGateOp& /*adds*/) const { return {}; }
  Operands operator()(const SplitOp& op) const {
    return {{op.first, op.first_width}, {op.second, op.second_width}};
  }
  Operands operator()(const LatentHeadsOp& op) const { return {{op.out, op.heads.row()}}; }
};

}  // namespace

std::vector<Operand> Reads(const PlainOp& op) { return std::visit(ReadsOf{}, op); }

std::vector<Operand> Writes(const PlainOp& op) { return std::visit(WritesOf{}, op); }

}  // namespace coxswain::model
