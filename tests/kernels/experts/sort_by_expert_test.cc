#include "kernels/experts/expert_rows.h"

#include <random>
#include <stdexcept>
#include <vector>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace sort_by_expert_test {
namespace {

using Ints = std::vector<int32_t>;

struct Sorted {
  Ints order, places, offsets, counts;
};

Sorted Sort(int64_t experts, int64_t chosen, const Ints& ids) {
  const SortByExpertSpec spec{.experts = experts, .chosen = chosen};
  const auto tokens = static_cast<int64_t>(ids.size()) / chosen;
  Sorted out{Ints(ids.size(), -7), Ints(ids.size(), -7), Ints(Size(experts + 1), -7),
             Ints(Size(experts), -7)};
  Scratch scratch(SortByExpertWorkspaceBytes(spec, tokens));
  ExpectNoAllocation none;
  SortByExpert({.spec = spec,
                .tokens = tokens,
                .ids = ids.data(),
                .order = out.order.data(),
                .places = out.places.data(),
                .offsets = out.offsets.data(),
                .counts = out.counts.data(),
                .workspace = scratch.view()},
               nullptr);
  return out;
}

// What stands in the contract, by a search for each expert.
void Check(int64_t experts, int64_t chosen, const Ints& ids) {
  const Sorted got = Sort(experts, chosen, ids);
  Ints order;
  for (int32_t e = 0; e < experts; ++e) {
    EXPECT_EQ(got.offsets[Size(e)], static_cast<int32_t>(order.size()));
    const size_t before = order.size();
    for (size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] == e) order.push_back(static_cast<int32_t>(p));
    }
    EXPECT_EQ(got.counts[Size(e)], static_cast<int32_t>(order.size() - before));
  }
  EXPECT_EQ(got.offsets.back(), static_cast<int32_t>(order.size()));
  Ints places(ids.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) places[Size(order[i])] = static_cast<int32_t>(i);
  order.resize(ids.size(), -1);
  EXPECT_EQ(got.order, order);
  EXPECT_EQ(got.places, places);
}

TEST(SortByExpertTest, SortsPairsStably) {
  Check(3, 2, {2, 0, 0, 1, 2, 0});
  Check(3, 2, {2, 0, -1, -1, 2, 1});
  Check(1, 1, {0});
  Check(1, 1, {-1});
  Check(5, 1, {});
  Check(4, 3, Ints(30, 2));  // all to one expert
  std::mt19937 random(1);
  for (const int64_t experts : {1, 7, 128}) {
    Ints ids(Size(8 * 53));
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % Size(experts + 1)) - 1;
    Check(experts, 8, ids);
  }
}

TEST(SortByExpertTest, RefusesAnExpertThatIsNotThere) {
  EXPECT_THROW(Sort(2, 1, {2}), std::invalid_argument);
  EXPECT_THROW(Sort(2, 1, {-2}), std::invalid_argument);
}

}  // namespace
}  // namespace sort_by_expert_test
}  // namespace coxswain::kernels
