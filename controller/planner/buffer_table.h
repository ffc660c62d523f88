// The buffer table of a plan: every allocation of a worker. Rows and formulas:
// worker/engine/README.md.
// The buffer table of a plan: what a worker allocates, byte for byte.
#ifndef COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_H_
#define COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_H_

#include <vector>

#include "common/plan/plan.h"

namespace coxswain::planner {

// From every field of `plan` but `buffers`.
std::vector<plan::Buffer> BufferTable(const plan::Plan& plan);
// Rows of worker/engine/README.md for a plan whose other fields are final. float32 throughout.
std::vector<plan::Buffer> MakeBufferTable(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_BUFFER_TABLE_H_
