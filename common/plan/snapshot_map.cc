#include "common/plan/snapshot_map.h"

namespace coxswain::plan {

SnapshotMap::SnapshotMap(const ShardMap& map) {
  for (const int64_t row : map.states) {
    states.push_back(bytes);
    bytes += row;
  }
  for (const Flat& flat : map.flats) {
    values.push_back(flat.trained() ? bytes : -1);
    if (flat.trained()) bytes += StorageBytes(flat.storage.trained_values(), flat.owned);
  }
  corrections = bytes;
  bytes += map.corrections;
  fp8_history = bytes;
  bytes += map.fp8_history;
}

int64_t CheckpointBytes(const Plan& plan) {
  if (!plan.trains()) return 0;
  const ShardMap map(plan);
  return map.shard * SnapshotMap(map).bytes;
}

}  // namespace coxswain::plan
