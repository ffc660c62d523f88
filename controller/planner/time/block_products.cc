#include "controller/planner/time/block_products.h"

#include <set>
#include <utility>
#include <variant>

#include "common/plan/buffers/activation_rows.h"

namespace coxswain::planner {
namespace {

using Tensors = std::set<std::pair<int64_t, int32_t>>;  // by layer and number in it

// Sums a block; `again` receives the tensors whose products are computed again.
void AddBlock(const plan::Plan& plan, int64_t layer, BlockProducts* products, Tensors* again) {
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    const bool repeats =
        plan.recompute == RecomputeLevel::kBlock || plan::ComputesAgain(plan, plan::AgainOf(op));
    if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
      if (!repeats) continue;
      products->linears_again += static_cast<double>(linear->in_features * linear->out_features);
      for (const model::LinearMember& member : linear->members)
        again->insert({layer, member.weight});
    } else if (const auto* experts = std::get_if<model::GroupedLinearOp>(&op)) {
      const auto elements = static_cast<double>(experts->routed.chosen * experts->in_features *
                                                experts->out_features);
      products->experts += elements;
      if (!repeats) continue;
      products->experts_again += elements;
      again->insert({layer, experts->weight});
    }
  }
}

}  // namespace

BlockProducts BlockProductsOf(const plan::Plan& plan) {
  BlockProducts products;
  Tensors again;
  for (int64_t layer = 0; layer < std::ssize(plan.architecture.blocks); ++layer) {
    AddBlock(plan, layer, &products, &again);
  }
  for (const model::Parameter& p : plan.parameters) {
    if (!model::IsLoraA(p) && !model::IsLoraB(p)) continue;
    if (!again.contains({p.layer, p.tensor})) continue;
    const auto elements = static_cast<double>(p.elements());
    const bool experts = p.kind == model::Kind::kExperts;
    products.adapters_again += experts ? elements * static_cast<double>(plan.model.mixture.chosen) /
                                             static_cast<double>(p.batch)
                                       : elements;
  }
  return products;
}

}  // namespace coxswain::planner
