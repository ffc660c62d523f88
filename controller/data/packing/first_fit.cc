#include "controller/data/packing/first_fit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace coxswain::data {

int64_t FirstFit(BinLimits limits, std::span<const int32_t> lengths, std::span<int32_t> bin_of) {
  if (lengths.empty()) return 0;
  // Leaf b holds what bin b can still take; inner nodes hold the maximum of their children. Bins
  // that are not in use yet are empty ones, so a fitting leaf always exists.
  const size_t leaves = std::bit_ceil(lengths.size());
  std::vector<int32_t> room(2 * leaves, limits.capacity);
  std::vector<int64_t> documents(lengths.size(), 0);
  int64_t bins = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    size_t node = 1;
    while (node < leaves) node = 2 * node + (room[2 * node] >= lengths[i] ? 0 : 1);
    const size_t bin = node - leaves;
    bin_of[i] = static_cast<int32_t>(bin);
    bins = std::max(bins, static_cast<int64_t>(bin) + 1);
    room[node] = ++documents[bin] == limits.max_documents ? 0 : room[node] - lengths[i];
    for (node /= 2; node >= 1; node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return bins;
}

}  // namespace coxswain::data
