// Memory that a training step on a GPU touches beside its products and attention.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TRAFFIC_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TRAFFIC_H_

#include "common/plan/plan.h"

namespace coxswain::planner {

// Elements of the compute dtype, read and written, per token slot.
struct Touched {
  double forward = 0, backward = 0, again = 0;  // `again`: recomputation in backward
};
Touched TouchedPerToken(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TRAFFIC_H_
