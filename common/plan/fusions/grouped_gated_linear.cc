// The product of gate and up of a mixture's experts with the gate that follows:
// kernels/experts/grouped_gated_linear.h, forward. An adapter of the experts adds to the product's
// output before the gate reads it.
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

bool HasKernel(model::Activation activation) {
  return activation == model::Activation::kSilu || activation == model::Activation::kClampedSilu;
}

int64_t FuseGroupedGatedLinear(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::GroupedLinearOp& linear, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != gate.in || !HasKernel(gate.activation) || adapted.Has(linear.weight, layer)) {
      return std::nullopt;
    }
    return model::GroupedGatedLinearOp{linear, gate};
  };
  return FusePairs<model::GroupedLinearOp, model::GateOp>(plan.model.num_layers, &lists->forward,
                                                          fuse);
}

}  // namespace

const Fusion kGroupedGatedLinearFusion = {.name = "grouped_gated_linear",
                                          .rewrite = &FuseGroupedGatedLinear};

}  // namespace coxswain::plan
