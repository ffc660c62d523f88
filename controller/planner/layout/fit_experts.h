// How many quantised experts a plan dequantises at a time.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_FIT_EXPERTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_FIT_EXPERTS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Whether the plan fits `memory_bytes`; 0: no limit. A plan that does not gets the largest number
// of common/plan/expert_ranges.h with which it does, or else the smallest, and its buffers. `plan`
// must have all that decides its buffers, and them.
bool FitExperts(uint64_t memory_bytes, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_FIT_EXPERTS_H_
