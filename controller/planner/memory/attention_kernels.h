// Which kernels compute attention on a GPU.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_KERNELS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_KERNELS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// "cuDNN"; "warpgroups": our kernels for compute capability 9.0; "tiles": our kernels for other
// GPUs and other heads; "plain": one warp per row, the slowest, for everything else. Attention in
// FP8 has those of warpgroups alone.
struct AttentionKernels {
  const char* single = nullptr;  // for micro-steps with one document per bin
  const char* packed = nullptr;
};
// `compute_capability`: x 10; 0: not known.
AttentionKernels AttentionKernelsOf(const plan::Plan& plan, int32_t compute_capability);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_ATTENTION_KERNELS_H_
