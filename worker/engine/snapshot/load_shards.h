// Loads a rank's part of a committed checkpoint.
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_LOAD_SHARDS_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_LOAD_SHARDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/snapshot/state_copy.h"

namespace coxswain::engine {

// Reads this rank's elements from the rank-*.safetensors of `directory`, whatever mesh, ZeRO stage
// and master dtype wrote them, into the trained values, the weights, the states of the optimizer
// the corrections of routers that updates move and the history of scales in FP8. Blocks are checked
// against the manifest while they are read, on FileThreads() threads: DataLoss names file, block
// and both values. FailedPrecondition names both recipe hashes when they differ. InvalidArgument
// names file and tensor: a tensor is missing, doubled, unknown or of another shape, or shards are
// missing or disagree on the counters. NotFound: there is no manifest or no shard. `recipe`: the
// hash that shards must name, in hex. `change`: of the trained values.
absl::StatusOr<SnapshotCounters> LoadShards(const plan::Plan& plan, const ParameterLayout& layout,
                                            const std::string& directory, const std::string& recipe,
                                            const Buffers& buffers, const Change& change = {});

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_LOAD_SHARDS_H_
