#include "controller/planner/layout/fit_experts.h"

#include "common/plan/expert_ranges.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"

namespace coxswain::planner {

bool FitExperts(uint64_t memory_bytes, plan::Plan* plan) {
  const auto fits = [&] {
    return memory_bytes == 0 || PlannedMemory(*plan).total() <= memory_bytes;
  };
  if (fits()) return true;
  for (const int64_t at_once : plan::ExpertRangeSizes(*plan)) {
    plan->experts_at_once = at_once;
    plan->buffers = BufferTable(*plan);
    if (fits()) return true;
  }
  return false;
}

}  // namespace coxswain::planner
