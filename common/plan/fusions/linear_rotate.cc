// The product of q, k and v with the rotation that follows: kernels/products/rotated_linear.h. An
// adapted linear's output is not one product's; a norm of q and k between the two keeps them apart.
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

int64_t FuseLinearRotate(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::RotateOp& rotate,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != rotate.qkv || adapted.Has(linear, layer) || InFp8(plan, linear, layer)) {
      return std::nullopt;
    }
    return model::LinearRotateOp{linear, rotate};
  };
  return FusePairs<model::LinearOp, model::RotateOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kLinearRotateFusion = {.name = "linear_rotate", .rewrite = &FuseLinearRotate};

}  // namespace coxswain::plan
