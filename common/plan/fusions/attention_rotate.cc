// The gradient of attention with that of the rotation before it: `rotation` of
// kernels/attention/attention.h. Norms of q and k and adapters come before both.
#include "common/plan/fusions/fusions.h"
#include "common/plan/fusions/pairs.h"

namespace coxswain::plan {
namespace {

int64_t FuseAttentionRotate(const Plan& plan, OpLists* lists) {
  const auto fuse = [](const model::AttentionOp& attention, const model::RotateOp& rotate,
                       int64_t /*layer*/) -> std::optional<model::Op> {
    if (attention.qkv != rotate.qkv) return std::nullopt;
    return model::RotatedAttentionOp{attention, rotate};
  };
  return FusePairs<model::AttentionOp, model::RotateOp>(plan.model.num_layers, &lists->backward,
                                                        fuse);
}

}  // namespace

const Fusion kAttentionRotateFusion = {.name = "attention_rotate", .rewrite = &FuseAttentionRotate};

}  // namespace coxswain::plan
