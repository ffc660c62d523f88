// The product of gate and up with the activation that follows: kernels/products/gated_linear.h,
// forward, and kernels/lora/lora_gated_linear.h where adapted.
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

bool HasBias(const model::LinearOp& linear) {
  return linear.members.front().bias != model::kNoTensor;
}

int64_t FuseGatedLinear(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    // DoRA scales the sum before the activation reads it.
    if (linear.out != gate.in || HasBias(linear) || InFp8(plan, linear, layer) ||
        gate.activation == model::Activation::kClampedSilu ||
        (plan.lora.dora && adapted.Has(linear, layer))) {
      return std::nullopt;
    }
    return model::GatedLinearOp{linear, gate};
  };
  return FusePairs<model::LinearOp, model::GateOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kGatedLinearFusion = {.name = "gated_linear", .rewrite = &FuseGatedLinear};

}  // namespace coxswain::plan
