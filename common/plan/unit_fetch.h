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
  // It stays until another unit takes the slot. Beside the slots it stays until an update.
  bool slotted = false;
};

// What a sweep finds of a unit.
struct Lacking {
  bool slot = false;     // its slot holds another unit
  bool updated = false;  // an update came after what its slot holds
  bool beside = false;   // an update came after what lies beside the slots
};

// A list for each kind of part, run one kind after the other. One of another kind (from host
// memory) is a list more here, in UnitFetches, UnitExchange::Fetch and the planner's
// Timeline::Fetch: who fetches, when and into which slot stays as it is.
struct UnitFetch {
  std::vector<GatherPart> gathers;
  // Quantised parameters, by index into the plan's table: out of their codes into the slot. Not the
  // experts of expert_ranges.h.
  std::vector<size_t> dequantized;

  bool slotted = false;  // some part is

  // The weights lie where sweeps read them.
  bool empty() const { return gathers.empty() && dequantized.empty(); }
  static bool Gathers(const GatherPart& part, const Lacking& lacking) {
    if (!part.slotted) return lacking.beside;
    return lacking.slot || (part.trained && lacking.updated);
  }
  // Some part is to be run.
  bool Lacks(const Lacking& lacking) const;
};

// By unit.
std::vector<UnitFetch> UnitFetches(const Plan& plan, const ShardMap& map);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_UNIT_FETCH_H_
