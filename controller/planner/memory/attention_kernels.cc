#include "controller/planner/memory/attention_kernels.h"

#include <algorithm>

namespace coxswain::planner {
namespace {

// kernels/cuda/attention/flash_attention.h.
constexpr int64_t kWidestTileHead = 256;
// kernels/cuda/attention/hopper_attention.h: heads, and from where on cuDNN's atomics are faster
// than them.
constexpr int32_t kWarpgroupCapability = 90;
constexpr int64_t kNarrowHead = 32, kMostGroupHeads = 64;
constexpr int64_t kLongDocument = 4096;

// Values are as wide as keys.
bool HasEqualWidths(const model::ModelConfig& model) { return model.value_dim() == model.head_dim; }
// Or as narrow as those of DeepSeek-V3.
bool HasWarpgroupWidths(const model::ModelConfig& model) {
  return HasEqualWidths(model) || (model.head_dim == 192 && model.value_dim() == 128);
}

bool RunsOnWarpgroups(const plan::Plan& plan, int32_t compute_capability) {
  const model::ModelConfig& model = plan.model;
  return compute_capability == kWarpgroupCapability && model.head_dim > kNarrowHead &&
         model.head_dim <= kWidestTileHead && model.head_dim % 8 == 0 &&
         HasWarpgroupWidths(model) && model.num_heads <= kMostGroupHeads * model.num_kv_heads;
}

}  // namespace

// What the kernels support: kernels/cuda/attention/attention.cc and what it calls.
AttentionKernels AttentionKernelsOf(const plan::Plan& plan, int32_t compute_capability) {
  if (plan.compute_dtype != Precision::kBfloat16) return {.single = "plain", .packed = "plain"};
  if (plan.fp8.attention) return {.single = "warpgroups", .packed = "warpgroups"};
  const char* packed =
      std::max(plan.model.head_dim, plan.model.value_dim()) <= kWidestTileHead ? "tiles" : "plain";
  if (RunsOnWarpgroups(plan, compute_capability)) {
    const bool atomics_win = plan.model.head_dim > 64 && plan.model.head_dim <= 128 &&
                             plan.sequence_len >= kLongDocument;
    const bool own = plan.attention_deterministic || !atomics_win ||
                     plan.model.attention_softcap > 0 || !HasEqualWidths(plan.model);
    return {.single = own ? "warpgroups" : "cuDNN", .packed = "warpgroups"};
  }
  const bool own = plan.model.attention_softcap > 0 || !HasEqualWidths(plan.model);
  return {.single = own ? packed : "cuDNN", .packed = packed};
}

}  // namespace coxswain::planner
