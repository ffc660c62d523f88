// Sizes that the rows of a buffer table are products of. Legend: worker/engine/BUFFERS.md.
#ifndef COXSWAIN_CONTROLLER_PLANNER_BUFFER_EXTENTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_BUFFER_EXTENTS_H_

#include <cstdint>
#include <vector>

#include "common/plan/dora_outputs.h"
#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::planner {

struct BufferExtents {
  explicit BufferExtents(const plan::Plan& plan);

  int64_t element = 0;  // bytes of the compute dtype
  int64_t tokens = 0, documents = 0, hidden = 0, query = 0, key = 0, packed = 0, intermediate = 0;
  int64_t embedding_rows = 0;  // tokens whose rows of the embedding's gradient ranks exchange, or 0
  int64_t head_rows = 0;       // tokens rounded up to whole LM-head chunks
  int64_t trainable = 0, trainable_tensors = 0;
  int64_t trainable_chunks = 0;       // kernels/adamw.h
  plan::ShardMap map;                 // rows of parameters
  std::vector<int64_t> lora_linears;  // adapted linears of a layer
  std::vector<plan::DoraOutput> dora;
  int64_t dora_columns = 0;  // of all of them
};

// Upper bound of the scratch memory that any kernel of the plan's device asks for, bytes.
int64_t ScratchBytes(const plan::Plan& plan, const BufferExtents& n);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_BUFFER_EXTENTS_H_
