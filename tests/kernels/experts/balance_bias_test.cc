#include "kernels/experts/expert_use.h"

#include <vector>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace balance_bias_test {
namespace {

Floats Moved(const Doubles& counts, const Floats& before, int64_t routers, int64_t stride,
             float rate = 0.25f, int32_t skip = 0) {
  Floats bias = before;
  ExpectNoAllocation none;
  BalanceBias({.routers = routers,
               .experts = static_cast<int64_t>(before.size()) / routers,
               .stride = stride,
               .counts = counts.data(),
               .rate = &rate,
               .skip = &skip,
               .bias = bias.data()},
              nullptr);
  return bias;
}

// Source: Wang et al., 2024, algorithm 1: b_i += u sign(mean(c) - c_i).
TEST(BalanceBiasTest, ExpertsAboveTheMeanFallAndThoseBelowRise) {
  EXPECT_EQ(Moved({6, 4, 2, 4}, {1, 1, 1, 1}, 1, 4), (Floats{0.75f, 1, 1.25f, 1}));
}

// A mean that is no integer: 10 / 3 is above 3 and below 4.
TEST(BalanceBiasTest, ComparesWithTheExactMean) {
  EXPECT_EQ(Moved({3, 3, 4}, {0, 0, 0}, 1, 3), (Floats{0.25f, 0.25f, -0.25f}));
}

TEST(BalanceBiasTest, EachRouterHasItsOwnMean) {
  const Doubles counts = {9, 0, 77, 77, 1, 3, 77, 77};
  EXPECT_EQ(Moved(counts, {0, 0, 0, 0}, 2, 4), (Floats{-0.25f, 0.25f, 0.25f, -0.25f}));
}

TEST(BalanceBiasTest, OneExpertWithEveryTokenFallsAlone) {
  EXPECT_EQ(Moved({0, 1e9, 0}, {0, 0, 0}, 1, 3), (Floats{0.25f, -0.25f, 0.25f}));
}

TEST(BalanceBiasTest, NothingMovesWithoutTokensWithoutARateOrInASkippedStep) {
  const Floats before = {0.5f, -0.0f};
  EXPECT_EQ(Moved({0, 0}, before, 1, 2), before);
  EXPECT_EQ(Moved({5, 1}, before, 1, 2, 0.0f), before);
  EXPECT_EQ(Moved({5, 1}, before, 1, 2, 0.25f, 1), before);
}

}  // namespace
}  // namespace balance_bias_test
}  // namespace coxswain::kernels
