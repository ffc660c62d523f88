// A frozen copy of what a checkpoint holds: masters, moments and counters of the trainable tensors.
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/engine.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

struct SnapshotCounters {
  int64_t finished_steps = -1;  // -1: no snapshot taken
  int64_t applied_updates = 0;
};

// Buffers::snapshot: adam.m, adam.v (float32), then the owned ranges of trained flats, each in the
// dtype of its masters, without gaps.
int64_t SnapshotBytes(const plan::Plan& plan, const ParameterLayout& layout);

// Fills Buffers::snapshot after all work of `stream`. Returns the SHA-256 (hex) of the counters and
// of the copy: equal on the ranks that own the same ranges.
std::string TakeSnapshot(const plan::Plan& plan, const ParameterLayout& layout,
                         const SnapshotCounters& counters, const Buffers& buffers,
                         kernels::Stream* stream);

struct ShardPlace {
  std::string directory;
  int rank = 0;
};

// Writes rank-R.safetensors with `<name>` (float32, or bfloat16 where the weights are their own
// masters), `<name>.m`, `<name>.v` (float32) of the elements that the rank saves of each trained
// tensor. Metadata: "format" = "pt", "coxswain" = JSON of recipe_hash (hex), finished_steps,
// applied_updates, rank, world_size and the pieces (common/checkpoint_tensors.h). Errors as
// WriteSafetensors.
absl::StatusOr<ShardFile> WriteShard(const plan::Plan& plan, const ParameterLayout& layout,
                                     const SnapshotCounters& counters, const Buffers& buffers,
                                     const ShardPlace& place);

// Reads what this rank owns from the rank-*.safetensors of `directory`, whatever mesh, ZeRO stage
// and master dtype wrote them, into the trained values, weights, adam.m and adam.v.
// FailedPrecondition names both recipe hashes when they differ. InvalidArgument names file and
// tensor: one that is missing, doubled, unknown or of another shape, shards that are missing or
// disagree on the counters. NotFound: no shard there.
absl::StatusOr<SnapshotCounters> LoadShards(const plan::Plan& plan, const ParameterLayout& layout,
                                            const std::string& directory, const Buffers& buffers);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_H_
