#include "common/plan/buffers/activation_rows.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/op_lists.h"

namespace coxswain::plan {
namespace {

using model::Row;

// What it takes to have again what an op writes.
struct AgainOfOp {
  Again operator()(const model::NormOp& /*op*/) const { return Again::kElementwise; }
  Again operator()(const model::LinearOp& op) const {
    return op.feeds_activation ? Again::kProduct : Again::kNever;
  }
  Again operator()(const model::GateOp& /*op*/) const { return Again::kElementwise; }
  Again operator()(const model::ActivationOp& /*op*/) const { return Again::kElementwise; }
  Again operator()(const model::RouteOp& /*op*/) const { return Again::kKept; }
  Again operator()(const model::DispatchOp& /*op*/) const { return Again::kElementwise; }
  Again operator()(const model::GroupedLinearOp& op) const {
    return op.feeds_activation ? Again::kProduct : Again::kExpertOut;
  }
  template <typename Other>
  Again operator()(const Other& /*op*/) const {
    return Again::kNever;
  }
};

// Statistics are kept where what they are of is computed again elementwise.
Again AgainAs(const model::Operand& out, Again again) {
  const bool kept = out.type != RowType::kCompute && again != Again::kKept;
  return kept ? Again::kNever : again;
}

// x A^T of each adapted router and stack of experts. A router is not run again in backward.
void AddExpertAdapterRows(const Plan& plan, int64_t layer, std::vector<ActivationRow>* rows) {
  const AdaptedLinears adapted(plan);
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    const auto* route = std::get_if<model::RouteOp>(&op);
    if (route != nullptr && adapted.Has(route->weight, layer)) {
      rows->push_back(
          {.row = RouterAdapterRow(layer), .width = plan.lora.rank, .again = Again::kKept});
    }
    const auto* experts = std::get_if<model::GroupedLinearOp>(&op);
    if (experts == nullptr || !adapted.Has(experts->weight, layer)) continue;
    rows->push_back({.row = ExpertAdapterRow(*experts, layer),
                     .width = experts->routed.chosen * adapted.RankOf(experts->weight, layer),
                     .again = AgainOf(op)});
  }
}

void AddAdapterRows(const Plan& plan, int64_t layer, std::vector<ActivationRow>* rows) {
  AddExpertAdapterRows(plan, layer, rows);
  const int64_t adapted =
      std::count_if(plan.parameters.begin(), plan.parameters.end(), [layer](const auto& p) {
        return p.layer == layer && model::IsLoraA(p) && p.kind == model::Kind::kLinear;
      });
  if (adapted == 0) return;
  rows->push_back({.row = LinearAdapterRow(layer), .width = plan.lora.rank * adapted});
  if (!plan.lora.dora) return;
  const AdaptedLinears linears(plan);
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    const auto* linear = std::get_if<model::LinearOp>(&op);
    if (linear == nullptr || !linears.Has(*linear, layer)) continue;
    rows->push_back(
        {.row = UnscaledRow(*linear, layer), .width = linear->out_features, .again = AgainOf(op)});
  }
}

bool Reads(const model::PlainOp& op, const model::Row& row) {
  const std::vector<model::Operand> ins = model::Reads(op);
  return std::any_of(ins.begin(), ins.end(), [&](const auto& in) { return in.row == row; });
}

bool Writes(const model::PlainOp& op, const model::Row& row) {
  const std::vector<model::Operand> outs = model::Writes(op);
  return std::any_of(outs.begin(), outs.end(), [&](const auto& out) { return out.row == row; });
}

// Asked of every row of every layer: a scan, where AdaptedLinears builds a map.
bool IsAdapted(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const auto& parameter) {
    return parameter.layer == layer && model::IsLoraA(parameter) &&
           std::any_of(linear.members.begin(), linear.members.end(),
                       [&](const auto& member) { return member.weight == parameter.tensor; });
  });
}

// The last of Again that a level computes; kNever: none.
Again DeepestOf(RecomputeLevel level) {
  switch (level) {
    case RecomputeLevel::kNormSwiglu:
      return Again::kElementwise;
    case RecomputeLevel::kExpertOut:
      return Again::kExpertOut;
    case RecomputeLevel::kFfn:
      return Again::kProduct;
    default:
      return Again::kNever;
  }
}

}  // namespace

Again AgainOf(const model::PlainOp& op) { return std::visit(AgainOfOp{}, op); }

bool IsKeptInFp8(const Plan& plan, const model::Row& row, int64_t layer) {
  // Other levels compute the row again, and its codes from it.
  const bool level =
      plan.recompute != RecomputeLevel::kBlock && plan.recompute != RecomputeLevel::kFfn;
  if (plan.fp8.recipe == Fp8Recipe::kNone || !plan.fp8.keeps_activations || !level ||
      !plan.trains() || row.layer != layer) {
    return false;
  }
  bool again = false;
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    if (Writes(op, row)) again = AgainOf(op) == Again::kElementwise;
    if (!Reads(op, row)) continue;
    const auto* reader = std::get_if<model::LinearOp>(&op);
    // The gradient of an adapter reads the row itself.
    if (reader == nullptr || !InFp8(plan, *reader, layer) || IsAdapted(plan, *reader, layer)) {
      return false;
    }
  }
  return again;
}

bool ComputesAgain(const Plan& plan, Again again) {
  return again > Again::kNever && again <= DeepestOf(plan.recompute);
}

std::vector<ActivationRow> ActivationRows(const Plan& plan, int64_t layer) {
  std::vector<ActivationRow> rows = {
      {.row = model::BlockInput(layer), .width = plan.model.hidden_size}};
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    const Again again = AgainOf(op);
    for (const model::Operand& out : model::Writes(op)) {
      if (out.row.layer != layer) continue;
      const bool in_fp8 = out.type == RowType::kCompute && IsKeptInFp8(plan, out.row, layer);
      rows.push_back(
          {out.row, out.width, out.type, in_fp8 ? Again::kInFp8 : AgainAs(out, again), out.fixed});
    }
  }
  AddAdapterRows(plan, layer, &rows);
  return rows;
}

int64_t ActivationOwner(const Plan& plan, const ActivationRow& row) {
  const int64_t layer = row.row.layer;
  if (row.again == Again::kKept) return layer;
  if (row.again == Again::kInFp8) return model::kSharedByLayers;
  if (plan.recompute != RecomputeLevel::kBlock) return ComputesAgain(plan, row.again) ? 0 : layer;
  const int64_t in_segment = layer % plan.recompute_every;
  return row.row == model::BlockInput(layer) && in_segment == 0 ? layer : in_segment;
}

std::string BufferName(const Row& row) {
  return row.layer < 0 ? row.name : absl::StrCat("layer", row.layer, ".", row.name);
}

Row UnscaledRow(const model::LinearOp& linear, int64_t layer) {
  return {layer, linear.name + "_u"};
}

Row ExpertAdapterRow(const model::GroupedLinearOp& experts, int64_t layer) {
  return {layer, experts.name + "_h"};
}

Row LinearAdapterRow(int64_t layer) { return {layer, "lora_h"}; }

Row RouterAdapterRow(int64_t layer) { return {layer, "router_h"}; }

int64_t DoraColumns(const Plan& plan) {
  if (!plan.lora.dora) return 0;
  const AdaptedLinears adapted(plan);
  int64_t columns = 0;
  int64_t layer = 0;
  for (const model::Block& block : plan.architecture.blocks) {
    for (const model::PlainOp& op : block.ops) {
      const auto* linear = std::get_if<model::LinearOp>(&op);
      if (linear != nullptr && adapted.Has(*linear, layer)) columns += linear->out_features;
    }
    ++layer;
  }
  return columns;
}

}  // namespace coxswain::plan
