#include "controller/planner/attention_kernels.h"

namespace coxswain::planner {
namespace {

// kernels/cuda/flash_attention.h.
constexpr int64_t kWidestTileHead = 256;
// kernels/cuda/hopper_attention.h: heads, and from where on cuDNN's atomics are faster than them.
constexpr int32_t kWarpgroupCapability = 90;
constexpr int64_t kNarrowHead = 32, kMostGroupHeads = 64;
constexpr int64_t kLongDocument = 4096;

bool RunsOnWarpgroups(const plan::Plan& plan, int32_t compute_capability) {
  const model::ModelConfig& model = plan.model;
  return compute_capability == kWarpgroupCapability && model.head_dim > kNarrowHead &&
         model.head_dim <= kWidestTileHead && model.head_dim % 8 == 0 &&
         model.num_heads <= kMostGroupHeads * model.num_kv_heads;
}

}  // namespace

// What the kernels support: kernels/cuda/attention.cc and what it calls.
AttentionKernels AttentionKernelsOf(const plan::Plan& plan, int32_t compute_capability) {
  if (plan.compute_dtype != "bfloat16") return {.single = "plain", .packed = "plain"};
  const char* packed = plan.model.head_dim <= kWidestTileHead ? "tiles" : "plain";
  if (RunsOnWarpgroups(plan, compute_capability)) {
    const bool atomics_win = plan.model.head_dim > 64 && plan.model.head_dim <= 128 &&
                             plan.sequence_len >= kLongDocument;
    const bool own =
        plan.attention_deterministic || !atomics_win || plan.model.attention_softcap > 0;
    return {.single = own ? "warpgroups" : "cuDNN", .packed = "warpgroups"};
  }
  return {.single = plan.model.attention_softcap > 0 ? packed : "cuDNN", .packed = packed};
}

}  // namespace coxswain::planner
