// The buffer table of a plan: every allocation of a worker. Rows and formulas:
// worker/engine/BUFFERS.md.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_TABLE_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_TABLE_H_

#include <vector>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Makes the table from all fields of `plan` except `buffers`.
std::vector<plan::Buffer> BufferTable(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_TABLE_H_
