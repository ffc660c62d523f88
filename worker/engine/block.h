// One transformer block, forward and backward, as the plan's lists of ops say.
#ifndef COXSWAIN_WORKER_ENGINE_BLOCK_H_
#define COXSWAIN_WORKER_ENGINE_BLOCK_H_

#include <cstdint>

#include "worker/engine/sweep.h"

namespace coxswain::engine {

// In: the stream behind the block before it, or what its fused norm adds to that. Out: likewise.
void BlockForward(const Sweep& sweep, int64_t layer);

// The unit of a block, as common/plan/shard_map.h numbers them.
inline int32_t UnitOf(int64_t layer) { return static_cast<int32_t>(layer) + 1; }

struct Segment {
  int64_t begin = 0, end = 0;  // blocks
};
// The blocks that BlockRecompute(layer) computes again from their weights; empty below kBlock.
Segment RecomputedSegment(const Model& model, int64_t layer);

// Fills again, bit for bit, what the backward of `layer` reads and the recompute level shares
// between layers. Called before every BlockBackward, from the last layer down.
void BlockRecompute(const Sweep& sweep, int64_t layer);

// In: Buffers::dres, gradient of the block's output. Out: dres, gradient of its input where
// anything below is trained. Parameter gradients accumulate. Overwrites the layer's gate_up.
void BlockBackward(const Sweep& sweep, int64_t layer);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BLOCK_H_
