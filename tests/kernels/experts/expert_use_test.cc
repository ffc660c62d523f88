#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/experts/expert_rows.h"
#include "kernels/experts/expert_use.h"
#include "tests/kernels/testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {

namespace expert_use_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Ints = std::vector<int32_t>;

Ints Routed(const ExpertUseSpec& spec, const Floats& logits) {
  const auto tokens = static_cast<int64_t>(logits.size()) / spec.experts;
  Ints ids(Size(tokens * spec.chosen));
  Floats weights(ids.size());
  RouteForward({.spec = {.experts = spec.experts, .chosen = spec.chosen, .score = spec.score},
                .tokens = tokens,
                .logits = logits.data(),
                .ids = ids.data(),
                .weights = weights.data()},
               nullptr);
  return ids;
}

Ints CountsOf(const ExpertUseSpec& spec, const Ints& ids) {
  const auto tokens = static_cast<int64_t>(ids.size()) / spec.chosen;
  const SortByExpertSpec sort{.experts = spec.experts, .chosen = spec.chosen};
  Ints order(ids.size()), places(ids.size()), offsets(Size(spec.experts + 1)),
      counts(Size(spec.experts));
  Scratch scratch(SortByExpertWorkspaceBytes(sort, tokens));
  SortByExpert({.spec = sort,
                .tokens = tokens,
                .ids = ids.data(),
                .order = order.data(),
                .places = places.data(),
                .offsets = offsets.data(),
                .counts = counts.data(),
                .workspace = scratch.view()},
               nullptr);
  return counts;
}

void AddUse(const ExpertUseSpec& spec, const Floats& logits, const Ints& ids, Doubles* sums) {
  const auto tokens = static_cast<int64_t>(ids.size()) / spec.chosen;
  const Ints counts = CountsOf(spec, ids);
  Scratch scratch(ExpertUseWorkspaceBytes(spec, tokens));
  ExpectNoAllocation none;
  ExpertUse({.spec = spec,
             .tokens = tokens,
             .logits = logits.data(),
             .ids = ids.data(),
             .counts = counts.data(),
             .sums = sums->data(),
             .workspace = scratch.view()},
            nullptr);
}

Doubles UseOf(const ExpertUseSpec& spec, const Floats& logits, const Ints& ids) {
  Doubles sums(Size(ExpertUseCount(spec.experts)), 0.0);
  AddUse(spec, logits, ids, &sums);
  return sums;
}

// A probability is off by c u, c = 2 (4 + R) + E/16 + 10, R the range of the logits, as in
// router_loss_test.cc. The entropy changes by at most c u (1 + max |log p|), max |log p| <= R +
// log E; by a sigmoid a score is off by 6 u and its logarithm likewise.
void CheckUse(const ExpertUseSpec& spec, int64_t tokens) {
  const Floats logits = Normal(tokens * spec.experts, 1, 2.0f);
  const Ints ids = Routed(spec, logits);
  const Doubles sums = UseOf(spec, logits, ids);
  const bool sigmoid = spec.score == RouterScore::kSigmoid;
  double want = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = logits.begin() + t * spec.experts;
    want += reference::RouterEntropy<double>({row, row + spec.experts}, sigmoid);
  }
  const double range = 2 * MaxAbs(Double(logits)), experts = static_cast<double>(spec.experts);
  const double unit = (2 * (4 + range) + experts / 16 + 10) * kUnit;
  EXPECT_EQ(sums[Size(spec.experts)], static_cast<double>(tokens));
  EXPECT_NEAR(sums[Size(spec.experts + 1)], want,
              static_cast<double>(tokens) * unit * (1 + range + std::log(experts)));
  Doubles counts(Size(spec.experts), 0.0);
  for (const int32_t id : ids) counts[Size(id)] += 1.0;
  EXPECT_EQ(counts, Doubles(sums.begin(), sums.begin() + spec.experts));
}

TEST(ExpertUseTest, MatchesReferenceForOddSizes) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const int64_t tokens : {1, 2, 13, 100}) {
      CheckUse({.experts = 1, .chosen = 1, .score = score}, tokens);
      CheckUse({.experts = 5, .chosen = 5, .score = score}, tokens);
      CheckUse({.experts = 8, .chosen = 2, .score = score}, tokens);
      CheckUse({.experts = 257, .chosen = 8, .score = score}, tokens);
    }
  }
}

// Experts that are alike have log E, one that has all has 0.
TEST(ExpertUseTest, EntropyIsLogOfExpertsWhereTheyAreAlikeAndNoneWhereOneHasAll) {
  const ExpertUseSpec spec{.experts = 4, .chosen = 1};
  EXPECT_NEAR(UseOf(spec, Floats(4, 3.0f), {0})[5], std::log(4.0), 1e-6);
  EXPECT_NEAR(UseOf(spec, {0, 90, 0, -kInfinity}, {1})[5], 0.0, 1e-6);
  const ExpertUseSpec sigmoid{.experts = 4, .chosen = 1, .score = RouterScore::kSigmoid};
  EXPECT_NEAR(UseOf(sigmoid, Floats(4, -9.0f), {0})[5], std::log(4.0), 1e-6);
  EXPECT_NEAR(UseOf(sigmoid, {-80, 10, -80, -kInfinity}, {1})[5], 0.0, 1e-6);
}

// The cut into calls changes the order of additions alone: counts and tokens are exact.
TEST(ExpertUseTest, CallsAddUpAndPaddingIsLeftOut) {
  const ExpertUseSpec spec{.experts = 6, .chosen = 2};
  const Floats logits = Normal(10 * 6, 1);
  const Ints ids = Routed(spec, logits);
  const Doubles whole = UseOf(spec, logits, ids);
  Doubles parts(8, 0.0);
  AddUse(spec, {logits.begin(), logits.begin() + 24}, {ids.begin(), ids.begin() + 8}, &parts);
  Floats second(logits.begin() + 24, logits.end());
  Ints second_ids(ids.begin() + 8, ids.end());
  second.insert(second.begin(), 6, kNan);
  second_ids.insert(second_ids.begin(), 2, -1);
  AddUse(spec, second, second_ids, &parts);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(parts[i], whole[i]) << i;
  EXPECT_NEAR(parts[7], whole[7], 1e-14 * 20);
}

// Their pairs count; n says how many tokens the entropy is of.
TEST(ExpertUseTest, TokensThatAreNotFiniteAddNoEntropy) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    const ExpertUseSpec spec{.experts = 3, .chosen = 2, .score = score};
    const Floats logits = {1, 1, 1, kNan, 0, 0, 0, 0, kNan, 0, kInfinity, 0, 1, 1, 1};
    const Doubles sums = UseOf(spec, logits, {0, 1, 0, 1, 0, 1, 1, 0, 0, 1});
    EXPECT_EQ(Doubles(sums.begin(), sums.begin() + 4), (Doubles{5, 5, 0, 2}));
    EXPECT_NEAR(sums[4], 2 * std::log(3.0), 1e-6);
  }
}

TEST(ExpertUseTest, RefusesMoreChosenThanExperts) {
  EXPECT_FALSE(ExpertUseSupports({.experts = 4, .chosen = 5}));
  EXPECT_FALSE(ExpertUseSupports({.experts = kMostExperts + 1, .chosen = 1}));
  EXPECT_TRUE(ExpertUseSupports({.experts = kMostExperts, .chosen = 8}));
}

}  // namespace
}  // namespace expert_use_test

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
