#include "worker/engine/ops/block.h"

#include <algorithm>

#include "worker/engine/ops/run_ops.h"

namespace coxswain::engine {
namespace {

const BoundBlock& BoundOf(const Sweep& sweep, int64_t layer) {
  return sweep.ops.blocks[static_cast<size_t>(layer)];
}

// What a router chose is kept: a tie may not fall otherwise.
void RunAgain(const Sweep& sweep, const BoundOp& op) {
  if (!std::holds_alternative<BoundRoute>(op)) RunForward(sweep, op);
}

// The blocks of one segment from the stream that enters its first.
void RecomputeSegment(const Sweep& sweep, Segment segment) {
  for (int64_t layer = segment.begin; layer < segment.end; ++layer) {
    sweep.units->Enter(UnitOf(layer));
    if (sweep.idle()) continue;
    const BoundBlock& block = BoundOf(sweep, layer);
    RunForward(sweep, layer == segment.begin ? block.first : block.forward.front());
    const size_t left_out = layer + 1 == segment.end ? block.only_for_next : 0;
    for (size_t i = 1; i + left_out < block.forward.size(); ++i) {
      RunAgain(sweep, block.forward[i]);
    }
  }
}

}  // namespace

void BlockForward(const Sweep& sweep, int64_t layer) {
  for (const BoundOp& op : BoundOf(sweep, layer).forward) RunForward(sweep, op);
}

Segment RecomputedSegment(const Model& model, int64_t layer) {
  if (!model.recompute_blocks) return {};
  const int64_t layers = model.config.num_layers;
  const int64_t begin = layer / model.recompute_every * model.recompute_every;
  const int64_t end = std::min(begin + model.recompute_every, layers);
  // The last segment is still there, and a segment is filled before its last block's backward.
  if (end == layers || layer != end - 1) return {};
  return {begin, end};
}

void BlockRecompute(const Sweep& backward, int64_t layer) {
  Sweep sweep = backward;
  sweep.first = false;  // of backward's sweeps; what forward found once is known
  if (sweep.model.recompute_blocks) {
    return RecomputeSegment(sweep, RecomputedSegment(sweep.model, layer));
  }
  const std::vector<BoundOp>& again = BoundOf(sweep, layer).again;
  if (again.empty()) return;
  sweep.units->Enter(UnitOf(layer));
  if (sweep.idle()) return;
  for (const BoundOp& op : again) RunForward(sweep, op);
}

void BlockBackward(const Sweep& sweep, int64_t layer) {
  for (const BoundOp& op : BoundOf(sweep, layer).backward) RunBackward(sweep, op);
}

}  // namespace coxswain::engine
