// The pairs (token, slot) of routers for the tests of experts, sorted on the host by the contract
// of kernels/experts/expert_rows.h.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_EXPERT_PAIRS_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_EXPERT_PAIRS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/values.h"

namespace coxswain::kernels {

using Ints = std::vector<int32_t>;

// Any experts; with `left_out` about one pair in experts + 1 has none.
inline Ints ExpertIds(int64_t pairs, int64_t experts, unsigned seed, bool left_out) {
  std::mt19937 random(seed);
  const auto kinds = static_cast<uint32_t>(experts + (left_out ? 1 : 0));
  Ints ids(Size(pairs));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kinds) - (left_out ? 1 : 0);
  return ids;
}

struct SortedPairs {
  Ints order, places, offsets, counts;

  SortedPairs(int64_t experts, const Ints& ids)
      : order(ids.size(), -1), places(ids.size(), -1), offsets{0}, counts(Size(experts), 0) {
    for (const int32_t id : ids) {
      if (id >= 0) ++counts[Size(id)];
    }
    for (const int32_t count : counts) offsets.push_back(offsets.back() + count);
    Ints next = offsets;
    for (size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] < 0) continue;
      places[p] = next[Size(ids[p])]++;
      order[Size(places[p])] = static_cast<int32_t>(p);
    }
  }
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_EXPERT_PAIRS_H_
