#include "worker/engine/memory/written_gradients.h"

#include "common/plan/storage.h"

namespace coxswain::engine {
namespace {

void Append(plan::Range range, std::vector<plan::Range>* ranges) {
  if (!ranges->empty() && ranges->back().end == range.begin) {
    ranges->back().end = range.end;
  } else {
    ranges->push_back(range);
  }
}

}  // namespace

std::vector<plan::Range> WrittenElements(const plan::Plan& plan, const plan::ShardMap& map,
                                         const plan::Flat& flat) {
  std::vector<plan::Range> ranges;
  for (const size_t i : flat.parameters) {
    if (!plan::IsWrittenByProduct(plan, plan.parameters[i])) continue;
    const int64_t begin = map.places[i].offset;
    Append({begin, begin + plan.parameters[i].elements()}, &ranges);
  }
  return ranges;
}

std::vector<plan::Range> WrittenBytes(const plan::Plan& plan, const plan::ShardMap& map) {
  std::vector<plan::Range> bytes;
  for (const plan::Flat& flat : map.flats) {
    if (!flat.trained() || flat.gradient_slotted()) continue;
    const auto at = [&flat](int64_t element) {
      return flat.gradient + plan::StorageBytes(*flat.storage.gradient, element);
    };
    for (const plan::Range& range : WrittenElements(plan, map, flat)) {
      Append({at(range.begin), at(range.end)}, &bytes);
    }
  }
  return bytes;
}

std::vector<plan::Range> Beside(const std::vector<plan::Range>& ranges, int64_t end) {
  std::vector<plan::Range> beside;
  int64_t at = 0;
  for (const plan::Range& range : ranges) {
    if (range.begin > at) beside.push_back({at, range.begin});
    at = range.end;
  }
  if (end > at) beside.push_back({at, end});
  return beside;
}

}  // namespace coxswain::engine
