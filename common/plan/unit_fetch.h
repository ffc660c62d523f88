// What makes the weights of a unit usable: one fetch, ahead of use, on the stream beside compute,
// into where sweeps read them. Its parts are decided here, from the plan; the planner predicts and
// the engine runs the same lists. Source: llmq, LLamaWeightsManager.
#ifndef COXSWAIN_COMMON_PLAN_UNIT_FETCH_H_
#define COXSWAIN_COMMON_PLAN_UNIT_FETCH_H_

#include <cstddef>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::plan {

// The owned ranges of a flat come from the ranks of the shard group.
struct GatherPart {
  size_t flat = 0;  // index into ShardMap::flats
  // Trained: also when an update has changed what is there.
  bool trained = false;
};

// A list for each kind of part, run one kind after the other. One of another kind (from host
// memory) is a list more here, in UnitFetches, UnitExchange::Fetch and the planner's
// Timeline::Fetch: who fetches, when and into which slot stays as it is.
struct UnitFetch {
  std::vector<GatherPart> gathers;
  // Quantised parameters, by index into the plan's table: out of their codes into the slot. Not the
  // experts of expert_ranges.h.
  std::vector<size_t> dequantized;

  // Slotted: what is fetched stays until another unit takes the slot.
  bool slotted = false;

  // The weights lie where sweeps read them.
  bool empty() const { return gathers.empty() && dequantized.empty(); }
  bool trained() const;  // some part is run again after an update
};

// By unit.
std::vector<UnitFetch> UnitFetches(const Plan& plan, const ShardMap& map);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_UNIT_FETCH_H_
