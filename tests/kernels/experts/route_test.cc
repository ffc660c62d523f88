#include "kernels/experts/route.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/kernels/testing.h"
#include "tests/reference/route.h"

namespace coxswain::kernels {
namespace route_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Routed {
  std::vector<int32_t> ids;
  Floats weights, dlogits;
};

Routed RouteRows(const RouteSpec& spec, const Floats& logits, const Floats& bias = {},
                 const Floats& dweights = {}, const std::vector<int32_t>& padding = {}) {
  const auto tokens = static_cast<int64_t>(logits.size()) / spec.experts;
  const size_t pairs = Size(tokens * spec.chosen);
  Routed out{std::vector<int32_t>(pairs, -7), Floats(pairs, kNan), Floats(logits.size(), kNan)};
  const Floats g = dweights.empty() ? Floats(pairs, 1.0f) : dweights;
  ExpectNoAllocation none;
  RouteForward({.spec = spec,
                .tokens = tokens,
                .logits = logits.data(),
                .bias = bias.empty() ? nullptr : bias.data(),
                .padding = padding.empty() ? nullptr : padding.data(),
                .ids = out.ids.data(),
                .weights = out.weights.data()},
               nullptr);
  RouteBackward({.spec = spec,
                 .tokens = tokens,
                 .logits = logits.data(),
                 .ids = out.ids.data(),
                 .dweights = g.data(),
                 .dlogits = out.dlogits.data()},
                nullptr);
  return out;
}

// The sum of an E-term softmax is off by (E/16 + 8) u, an exponential by 4 u and, as its argument
// is rounded, by the range R of the logits; the sum has the same: c = 2 (4 + R) + E/16 + k + 20
// counts all roundings of a weight, and those of a logistic one, which has 6 u. A gradient is at
// most twice scale |g| in size and meets the roundings of the score and of the mean.
void Check(const RouteSpec& spec, int64_t tokens, bool biased) {
  const Floats logits = Normal(tokens * spec.experts, 1, 2.0f);
  const Floats bias = biased ? Normal(spec.experts, 2, 0.3f) : Floats();
  const Floats dweights = Normal(tokens * spec.chosen, 3);
  const Routed got = RouteRows(spec, logits, bias, dweights);
  const reference::RouteOptions options{
      spec.experts,     spec.chosen, spec.score == RouterScore::kSigmoid,
      spec.renormalise, spec.groups, spec.top_groups,
      spec.scale};
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  const double count = 2 * (4.0 + *high - *low) + static_cast<double>(spec.experts) / 16 +
                       static_cast<double>(spec.chosen) + 20;
  for (int64_t t = 0; t < tokens; ++t) {
    const Doubles row(logits.begin() + t * spec.experts, logits.begin() + (t + 1) * spec.experts);
    const Doubles g(dweights.begin() + t * spec.chosen, dweights.begin() + (t + 1) * spec.chosen);
    const auto want = reference::Route(options, row, Double(bias));
    const Doubles gradient = reference::RouteBackward(options, row, want.ids, g);
    for (size_t j = 0; j < want.ids.size(); ++j) {
      const size_t at = Size(t * spec.chosen) + j;
      ASSERT_EQ(got.ids[at], want.ids[j]) << "token " << t << " slot " << j;
      ASSERT_NEAR(got.weights[at], want.weights[j], count * kUnit * want.weights[j]);
    }
    for (size_t e = 0; e < row.size(); ++e) {
      ASSERT_NEAR(got.dlogits[Size(t * spec.experts) + e], gradient[e],
                  4 * count * kUnit * spec.scale * MaxAbs(g))
          << "token " << t << " expert " << e;
    }
  }
}

TEST(RouteTest, MatchesReferenceForOddSizes) {
  for (const int64_t tokens : {1, 7}) {
    for (const bool renormalise : {false, true}) {
      for (const auto& [experts, chosen] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {2, 1}, {5, 5}, {8, 2}, {17, 3}, {33, 32}, {128, 8}, {257, 4}}) {
        Check({.experts = experts, .chosen = chosen, .renormalise = renormalise, .scale = 1.5f},
              tokens, false);
        Check({.experts = experts,
               .chosen = chosen,
               .score = RouterScore::kSigmoid,
               .renormalise = renormalise,
               .scale = 2.5f},
              tokens, true);
      }
    }
  }
}

TEST(RouteTest, MatchesReferenceForGroups) {
  for (const auto& [groups, top] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {4, 2}, {8, 8}, {12, 5}, {24, 6}}) {
    for (const bool biased : {false, true}) {
      Check({.experts = 24,
             .chosen = 3,
             .score = RouterScore::kSigmoid,
             .groups = groups,
             .top_groups = top,
             .renormalise = true},
            9, biased);
    }
  }
}

TEST(RouteTest, TiesGoToTheLowerIndex) {
  const RouteSpec spec{.experts = 5, .chosen = 3};
  EXPECT_EQ(RouteRows(spec, {1, 3, 3, 2, 3}).ids, (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(RouteRows(spec, Floats(5, 0.5f)).ids, (std::vector<int32_t>{0, 1, 2}));
  // Of groups too: all four sum to the same; the best of the first two are 1 and 2.
  const RouteSpec grouped{
      .experts = 8, .chosen = 2, .score = RouterScore::kSigmoid, .groups = 4, .top_groups = 2};
  EXPECT_EQ(RouteRows(grouped, {0, 1, 1, 0, 1, 0, 0, 1}).ids, (std::vector<int32_t>{1, 2}));
}

// Logits that are equal as probabilities in float32 are still in order.
TEST(RouteTest, SoftmaxIsChosenByLogits) {
  const Routed got = RouteRows({.experts = 3, .chosen = 2}, {-60.0f, -59.9f, 40.0f});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{2, 1}));
}

TEST(RouteTest, BiasChoosesAndDoesNotWeigh) {
  const RouteSpec spec{.experts = 3, .chosen = 1, .score = RouterScore::kSigmoid};
  const Routed got = RouteRows(spec, {0.0f, 1.0f, 2.0f}, {10.0f, 0.0f, 0.0f});
  EXPECT_EQ(got.ids[0], 0);
  EXPECT_EQ(got.weights[0], 0.5f);
}

TEST(RouteTest, NanOfARowStaysInItsRow) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const bool renormalise : {false, true}) {
      const RouteSpec spec{.experts = 4, .chosen = 2, .score = score, .renormalise = renormalise};
      Floats logits = Normal(12, 1);
      const Routed clean = RouteRows(spec, logits);
      logits[7] = kNan;
      const Routed got = RouteRows(spec, logits);
      EXPECT_EQ(got.ids[2], 0);
      EXPECT_EQ(got.ids[3], 1);
      for (size_t i = 0; i < 12; ++i) {
        const bool row = i / 4 == 1;
        EXPECT_EQ(std::isnan(got.dlogits[i]), row);
        if (!row) {
          EXPECT_EQ(got.dlogits[i], clean.dlogits[i]);
        }
      }
      for (size_t i = 0; i < 6; ++i) {
        const bool row = i / 2 == 1;
        EXPECT_EQ(std::isnan(got.weights[i]), row);
        if (!row) {
          EXPECT_EQ(got.ids[i], clean.ids[i]);
        }
      }
    }
  }
}

// Infinities of a bias that cancel in the sum of a group leave no order among groups.
TEST(RouteTest, GroupsWithoutAnOrderRouteAsNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const RouteSpec spec{
      .experts = 4, .chosen = 2, .score = RouterScore::kSigmoid, .groups = 2, .top_groups = 1};
  const Routed got = RouteRows(spec, {1, 2, 3, 4}, {inf, -inf, 0, 0});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(std::isnan(got.weights[0]) && std::isnan(got.weights[1]));
}

TEST(RouteTest, PaddingHasNoExpertAndIsNotRead) {
  const RouteSpec spec{.experts = 3, .chosen = 2};
  Floats logits = Normal(9, 1);
  logits[3] = kNan;
  const Routed got = RouteRows(spec, logits, {}, {}, {5, -1, 0});
  for (const size_t at : {2, 3}) {
    EXPECT_EQ(got.ids[at], -1);
    EXPECT_EQ(got.weights[at], 0.0f);
  }
  for (size_t e = 3; e < 6; ++e) EXPECT_EQ(got.dlogits[e], 0.0f);
  EXPECT_GE(got.ids[0], 0);
  EXPECT_GE(got.ids[4], 0);
}

// Saturated logits: no 0 / 0, and the sum of logistic values that vanish is 1e-20.
TEST(RouteTest, ExtremeLogits) {
  const Routed softmax =
      RouteRows({.experts = 2, .chosen = 2, .renormalise = true}, {3e38f, -3e38f});
  EXPECT_EQ(softmax.weights, (Floats{1.0f, 0.0f}));
  const RouteSpec sigmoid{
      .experts = 2, .chosen = 1, .score = RouterScore::kSigmoid, .renormalise = true};
  EXPECT_EQ(RouteRows(sigmoid, {-200.0f, -300.0f}).weights[0], 0.0f);
  EXPECT_EQ(RouteRows(sigmoid, {200.0f, 0.0f}).weights[0], 1.0f);
}

TEST(RouteTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(RouteSupports({.experts = 4, .chosen = 5}));
  EXPECT_FALSE(RouteSupports({.experts = kMostExperts + 1, .chosen = 1}));
  EXPECT_FALSE(RouteSupports({.experts = 4, .chosen = 1, .groups = 2, .top_groups = 1}));
  EXPECT_FALSE(RouteSupports(
      {.experts = 4, .chosen = 3, .score = RouterScore::kSigmoid, .groups = 2, .top_groups = 1}));
  EXPECT_FALSE(RouteSupports(
      {.experts = 4, .chosen = 1, .score = RouterScore::kSigmoid, .groups = 3, .top_groups = 1}));
  EXPECT_THROW(RouteRows({.experts = 2, .chosen = 1}, {1, 2}, {0, 0}), std::invalid_argument);
  const Floats logits = {1, 2}, dweights = {1, 1};
  Floats dlogits(2);
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{0, 2}, {0, -1}, {-1, 0}}) {
    EXPECT_THROW(RouteBackward({.spec = {.experts = 2, .chosen = 2},
                                .tokens = 1,
                                .logits = logits.data(),
                                .ids = ids.data(),
                                .dweights = dweights.data(),
                                .dlogits = dlogits.data()},
                               nullptr),
                 std::invalid_argument);
  }
}

}  // namespace
}  // namespace route_test
}  // namespace coxswain::kernels
