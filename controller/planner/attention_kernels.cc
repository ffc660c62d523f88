#include "controller/planner/attention_kernels.h"

namespace coxswain::planner {
namespace {

// kernels/cuda/flash_attention.h.
constexpr int64_t kWidestTileHead = 256;

}  // namespace

// What the kernels support: kernels/cuda/cudnn_attention.cc, kernels/cuda/flash_attention.cu.
AttentionKernels AttentionKernelsOf(const plan::Plan& plan) {
  if (plan.compute_dtype != "bfloat16") return {.single = "plain", .packed = "plain"};
  const char* packed = plan.model.head_dim <= kWidestTileHead ? "tiles" : "plain";
  return {.single = plan.model.attention_softcap > 0 ? packed : "cuDNN", .packed = packed};
}

}  // namespace coxswain::planner
