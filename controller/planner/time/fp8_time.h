// What products in FP8 change of the time of a step.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_FP8_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_FP8_TIME_H_

#include "common/gpu_table.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Seconds to add to those of the same step with all products in bfloat16; products save, operands
// cost.
struct Fp8Seconds {
  double forward_token = 0, backward_token = 0, again_token = 0;
  double forward_micro_step = 0, backward_micro_step = 0;  // operands of weights, made each time
  double step = 0;                                         // those that are kept
};
Fp8Seconds Fp8SecondsOf(const plan::Plan& plan, const GpuRates& rates);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_FP8_TIME_H_
