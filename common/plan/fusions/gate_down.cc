// The input gradient of the down projection with that of the activation before it:
// kernels/gated_linear.h, backward, and kernels/lora_gated_linear.h where adapted.
#include "common/plan/fusions/fusions.h"

namespace coxswain::plan {
namespace {

int64_t FuseGateDown(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  int64_t pairs = 0;
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    Ops rewritten;
    for (model::Op& op : lists->backward[static_cast<size_t>(layer)]) {
      const auto* gate = std::get_if<model::GateOp>(&op);
      const auto* down =
          rewritten.empty() ? nullptr : std::get_if<model::LinearOp>(&rewritten.back());
      // DoRA has the gradient of its sum alone.
      const bool fuses = gate != nullptr && down != nullptr && down->in == gate->out &&
                         !(plan.lora.dora && adapted.Has(*down, layer));
      if (fuses) {
        model::GateDownOp both{*gate, *down};
        rewritten.back() = std::move(both);
        ++pairs;
      } else {
        rewritten.push_back(std::move(op));
      }
    }
    lists->backward[static_cast<size_t>(layer)] = std::move(rewritten);
  }
  return pairs;
}

}  // namespace

const Fusion kGateDownFusion = {.name = "gate_down", .rewrite = &FuseGateDown};

}  // namespace coxswain::plan
