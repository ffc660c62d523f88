// One transformer block, forward and backward, by the plan's lists of ops.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_BLOCK_H_
#define COXSWAIN_WORKER_ENGINE_OPS_BLOCK_H_

#include <cstdint>

#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// In: the residual stream after the previous block, or the input of its fused norm. Out: the same
// for this block.
void BlockForward(const Sweep& sweep, int64_t layer);

// The unit of a block, as common/plan/shard_map.h numbers them.
inline int32_t UnitOf(int64_t layer) { return static_cast<int32_t>(layer) + 1; }

struct Segment {
  int64_t begin = 0, end = 0;  // blocks
};
// The blocks that BlockRecompute(layer) computes again from their weights; empty below "block".
Segment RecomputedSegment(const Model& model, int64_t layer);

// Recomputes, bit for bit, the rows that the backward of `layer` reads and that layers share at
// this recompute level. Call it before every BlockBackward, from the last layer down.
void BlockRecompute(const Sweep& sweep, int64_t layer);

// In: Buffers::dres, the gradient of the block's output. Out: dres, the gradient of its input if
// anything below is trained. Parameter gradients accumulate. Overwrites the layer's gate_up.
void BlockBackward(const Sweep& sweep, int64_t layer);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_BLOCK_H_
