#include "controller/data/packing/successor_set.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace coxswain::data {
namespace {

int64_t Expected(const std::set<size_t>& members, size_t x) {
  auto it = members.lower_bound(x);
  return it == members.end() ? -1 : static_cast<int64_t>(*it);
}

TEST(SuccessorSetTest, AgreesWithAnOrderedSetOnRandomOperations) {
  for (size_t universe : {1u, 2u, 63u, 64u, 65u, 4096u, 4097u, 300000u}) {
    SuccessorSet set(universe);
    std::set<size_t> expected;
    std::mt19937_64 random(universe);
    for (int step = 0; step < 3000; ++step) {
      const size_t x = random() % universe;
      if (random() % 2) {
        set.Insert(x);
        expected.insert(x);
      } else {
        set.Erase(x);
        expected.erase(x);
      }
      const size_t query = random() % (universe + 1);
      ASSERT_EQ(set.Successor(query), Expected(expected, query)) << universe << " step " << step;
    }
  }
}

}  // namespace
}  // namespace coxswain::data
