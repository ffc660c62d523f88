#include "common/plan/unit_fetch.h"

#include <algorithm>

namespace coxswain::plan {

bool UnitFetch::Lacks(const Lacking& lacking) const {
  if (lacking.slot && !dequantized.empty()) return true;
  return std::any_of(gathers.begin(), gathers.end(),
                     [&](const GatherPart& part) { return Gathers(part, lacking); });
}

std::vector<UnitFetch> UnitFetches(const Plan& plan, const ShardMap& map) {
  std::vector<UnitFetch> fetches(static_cast<size_t>(plan.model.num_layers + 2));
  for (size_t f = 0; f < map.flats.size(); ++f) {
    const Flat& flat = map.flats[f];
    UnitFetch& fetch = fetches[static_cast<size_t>(flat.unit)];
    const bool slotted = flat.weights_slotted() || flat.packed_slot >= 0;
    fetch.slotted = fetch.slotted || slotted;
    if (flat.quantized() && !flat.in_ranges) fetch.dequantized = flat.parameters;
    const bool split = plan.zero == 3 && slotted;
    const bool elsewhere = flat.trained() || split;
    if (plan.shard > 1 && elsewhere) fetch.gathers.push_back({f, flat.trained(), slotted});
  }
  return fetches;
}

}  // namespace coxswain::plan
