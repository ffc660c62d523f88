// The buffer table of a plan for cpu workers.
#ifndef COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_CPU_H_
#define COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_CPU_H_

#include <vector>

#include "common/plan/plan.h"

namespace coxswain::planner {

// As BufferTable, of a plan whose device is "cpu": float32 throughout, recompute "none" or "block".
std::vector<plan::Buffer> CpuBufferTable(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_CPU_H_
