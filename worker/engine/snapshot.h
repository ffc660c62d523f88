// A frozen copy of what a checkpoint holds: masters, optimizer states and counters of the trainable
// tensors.
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_

#include <cstdint>
#include <string>

#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

struct SnapshotCounters {
  int64_t finished_steps = -1;  // -1: no snapshot taken
  int64_t applied_updates = 0;
};

// Fills Buffers::snapshot after all work of `stream`. Returns the SHA-256 (hex) of the counters and
// of the copy: equal on the ranks that own the same ranges.
std::string TakeSnapshot(const ParameterLayout& layout, const SnapshotCounters& counters,
                         const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_
