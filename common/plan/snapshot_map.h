// What lies where in a snapshot (row "snapshot"): the rows of the optimizer's states one after
// another, then the owned ranges of trained flats, in order and without gaps, each in the storage
// of its trained values, then the corrections of routers that updates move, then the history of
// scales in FP8.
#ifndef COXSWAIN_COMMON_PLAN_SNAPSHOT_MAP_H_
#define COXSWAIN_COMMON_PLAN_SNAPSHOT_MAP_H_

#include <cstdint>
#include <vector>

#include "common/plan/shard_map.h"

namespace coxswain::plan {

struct SnapshotMap {
  explicit SnapshotMap(const ShardMap& map);

  std::vector<int64_t> states;  // by state of the optimizer: first byte of its row
  std::vector<int64_t> values;  // by flat: first byte; -1: frozen
  int64_t corrections = 0;      // first byte
  int64_t fp8_history = 0;      // first byte
  int64_t bytes = 0;
};

// Of the tensors that the ranks of a gang write into a checkpoint, a little more than they take.
int64_t CheckpointBytes(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_SNAPSHOT_MAP_H_
