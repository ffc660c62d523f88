// A linear and the add of its output to the stream: the addend of kernels/products/gemm.h. One
// product reads the stream and writes the next, and no norm behind it adds. An adapted linear's
// output is not one product's; one that adds to what another wrote has an addend already.
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

int64_t FuseLinearAdd(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::AddOp& add,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != add.branch || linear.adds || adapted.Has(linear, layer)) return std::nullopt;
    return model::LinearAddOp{linear, add};
  };
  return FusePairs<model::LinearOp, model::AddOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kLinearAddFusion = {.name = "linear_add", .rewrite = &FuseLinearAdd};

}  // namespace coxswain::plan
