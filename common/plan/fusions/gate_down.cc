// The input gradient of the down projection with that of the activation before it:
// kernels/products/gated_linear.h, backward, and kernels/lora/lora_gated_linear.h where adapted.
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

int64_t FuseGateDown(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& down, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    // DoRA has the gradient of its sum alone.
    if (down.in != gate.out || InFp8(plan, down, layer) ||
        gate.activation == model::Activation::kClampedSilu ||
        (plan.lora.dora && adapted.Has(down, layer)))
      return std::nullopt;
    return model::GateDownOp{gate, down};
  };
  return FusePairs<model::LinearOp, model::GateOp>(plan.model.num_layers, &lists->backward, fuse);
}

}  // namespace

const Fusion kGateDownFusion = {.name = "gate_down", .rewrite = &FuseGateDown};

}  // namespace coxswain::plan
