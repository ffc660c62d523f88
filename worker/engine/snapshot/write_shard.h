// Writes a rank's file of a checkpoint from its newest snapshot.
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_WRITE_SHARD_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_WRITE_SHARD_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/snapshot/state_copy.h"

namespace coxswain::engine {

struct ShardPlace {
  std::string directory;
  int rank = 0;
  std::function<bool()> cancelled = {};  // as in BlockWriteOptions
};

// Writes rank-R.safetensors on FileThreads() threads. For the elements that the rank saves of each
// trained tensor it holds `<name>` (float32, or bfloat16 if the weights are their own masters) and
// the states of the optimizer (`<name>.m`, `<name>.v`, ...), each in its storage (state_tensor.h);
// that of rank 0 also `<name>` (float32) of each correction of a router that updates move.
// Metadata: "format" = "pt", "coxswain" = JSON of recipe_hash (hex), finished_steps,
// applied_updates, rank, world_size and the pieces (common/checkpoint/checkpoint_tensors.h). Errors
// as WriteSafetensorsBlocks.
absl::StatusOr<ShardFile> WriteShard(const plan::Plan& plan, const ParameterLayout& layout,
                                     const SnapshotCounters& counters, const Buffers& buffers,
                                     const ShardPlace& place);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_WRITE_SHARD_H_
