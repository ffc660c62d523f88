// Which kernels compute attention on a GPU.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// "cuDNN"; "warpgroups": our loops for compute capability 9.0; "tiles": those for others and for
// other heads; "plain": a warp a row, the slowest, for what the others do not take.
struct AttentionKernels {
  const char* single = nullptr;  // of micro-steps whose bins hold one document each
  const char* packed = nullptr;
};
// `compute_capability`: x 10; 0: not known.
AttentionKernels AttentionKernelsOf(const plan::Plan& plan, int32_t compute_capability);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_
