// The product of gate and up with the activation that follows: kernels/gated_linear.h, forward, and
// kernels/lora_gated_linear.h where adapted.
#include "common/plan/fusions/fusions.h"

namespace coxswain::plan {
namespace {

bool HasBias(const model::LinearOp& linear) {
  return linear.members.front().bias != model::Role::kNone;
}

int64_t FuseGatedLinear(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  int64_t pairs = 0;
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    Ops rewritten;
    for (model::Op& op : lists->forward[static_cast<size_t>(layer)]) {
      const auto* gate = std::get_if<model::GateOp>(&op);
      const auto* linear =
          rewritten.empty() ? nullptr : std::get_if<model::LinearOp>(&rewritten.back());
      // DoRA scales the sum before the activation reads it.
      const bool fuses = gate != nullptr && linear != nullptr && linear->out == gate->in &&
                         !HasBias(*linear) && !(plan.lora.dora && adapted.Has(*linear, layer));
      if (fuses) {
        model::GatedLinearOp both{*linear, *gate};
        rewritten.back() = std::move(both);
        ++pairs;
      } else {
        rewritten.push_back(std::move(op));
      }
    }
    lists->forward[static_cast<size_t>(layer)] = std::move(rewritten);
  }
  return pairs;
}

}  // namespace

const Fusion kGatedLinearFusion = {.name = "gated_linear", .rewrite = &FuseGatedLinear};

}  // namespace coxswain::plan
