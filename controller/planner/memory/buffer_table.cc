#include "controller/planner/memory/buffer_table.h"

#include "common/plan/buffer_names.h"
#include "common/plan/buffers/buffer_rows.h"
#include "controller/planner/memory/buffer_extents.h"

namespace coxswain::planner {

std::vector<plan::Buffer> BufferTable(const plan::Plan& plan) {
  std::vector<plan::Buffer> rows = plan::BufferRows(plan);
  rows.push_back({plan::buffers::kScratch, plan::MemoryClass::kWorkspace,
                  ScratchBytes(plan, BufferExtents(plan)), ""});
  return rows;
}

}  // namespace coxswain::planner
