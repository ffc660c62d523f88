// Sizes on which the scratch memory of a plan depends. Legend: worker/engine/BUFFERS.md.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_EXTENTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_EXTENTS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

struct BufferExtents {
  explicit BufferExtents(const plan::Plan& plan);

  int64_t element = 0;  // bytes of the compute dtype
  int64_t tokens = 0, hidden = 0, query = 0, packed = 0, intermediate = 0;
  // Tokens for which ranks exchange rows of the embedding's gradient, or 0.
  int64_t embedding_rows = 0;
};

// Upper bound of the scratch memory that any kernel of the plan's device asks for, bytes.
int64_t ScratchBytes(const plan::Plan& plan, const BufferExtents& n);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_BUFFER_EXTENTS_H_
