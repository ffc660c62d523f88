// Which kernels compute attention on a GPU.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_

#include "common/plan/plan.h"

namespace coxswain::planner {

// "cuDNN"; "tiles": our tensor-core loops over packed documents; "plain": a warp a row, the
// slowest, for what the others do not take.
struct AttentionKernels {
  const char* single = nullptr;  // of micro-steps whose bins hold one document each
  const char* packed = nullptr;
};
AttentionKernels AttentionKernelsOf(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ATTENTION_KERNELS_H_
