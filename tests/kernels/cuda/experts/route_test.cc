#include "kernels/experts/route.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/route.h"

namespace coxswain::kernels {
namespace gpu_route_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Routed {
  Ints ids;
  Floats weights, dlogits;
};

Routed RouteRows(const RouteSpec& spec, const Floats& logits, const Floats& bias = {},
                 const Floats& dweights = {}, const Ints& padding = {}) {
  const auto tokens = static_cast<int64_t>(logits.size()) / spec.experts;
  const size_t pairs = Size(tokens * spec.chosen);
  const DeviceTensor device_logits(DType::kFloat32, logits), device_bias(DType::kFloat32, bias);
  const DeviceTensor g(DType::kFloat32, dweights.empty() ? Floats(pairs, 1.0f) : dweights);
  const DeviceTensor weights(DType::kFloat32, tokens * spec.chosen);
  const DeviceTensor dlogits(DType::kFloat32, tokens * spec.experts);
  const DeviceValues<int32_t> device_padding(padding), ids(Ints(pairs, -7));
  RouteForward({.spec = spec,
                .tokens = tokens,
                .logits = device_logits.floats(),
                .bias = bias.empty() ? nullptr : device_bias.floats(),
                .padding = padding.empty() ? nullptr : device_padding.data(),
                .ids = ids.data(),
                .weights = weights.floats()},
               TestStream());
  RouteBackward({.spec = spec,
                 .tokens = tokens,
                 .logits = device_logits.floats(),
                 .ids = ids.data(),
                 .dweights = g.floats(),
                 .dlogits = dlogits.floats()},
                TestStream());
  return {ids.Read(), weights.Read(), dlogits.Read()};
}

// As tests/kernels/experts/route_test.cc counts: an exponential is off by 4 u and by the range R of
// the logits, a logistic value by 6 u; a sum of E / 32 exponentials of a lane, then of lanes, by E
// / 16 + 8 with theirs; the sum of the chosen by at most k. A gradient is at most twice scale |g|
// in size and meets the roundings of the score and of the mean.
void CheckRoute(const RouteSpec& spec, int64_t tokens, bool biased) {
  SCOPED_TRACE(std::to_string(spec.chosen) + " of " + std::to_string(spec.experts) + " in " +
               std::to_string(spec.groups) +
               (spec.score == RouterScore::kSigmoid ? " sigmoid" : ""));
  const Floats logits = Normal(tokens * spec.experts, 1, DType::kFloat32, 2.0f);
  const Floats bias = biased ? Normal(spec.experts, 2, DType::kFloat32, 0.3f) : Floats();
  const Floats dweights = Normal(tokens * spec.chosen, 3, DType::kFloat32);
  const Routed got = RouteRows(spec, logits, bias, dweights);
  const reference::RouteOptions options{
      spec.experts,     spec.chosen, spec.score == RouterScore::kSigmoid,
      spec.renormalise, spec.groups, spec.top_groups,
      spec.scale};
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  const double count = 2 * (4.0 + *high - *low) + static_cast<double>(spec.experts) / 16 +
                       static_cast<double>(spec.chosen) + 20;
  const double unit = count * kUnit(DType::kFloat32);
  for (int64_t t = 0; t < tokens; ++t) {
    const Doubles row(logits.begin() + t * spec.experts, logits.begin() + (t + 1) * spec.experts);
    const Doubles g(dweights.begin() + t * spec.chosen, dweights.begin() + (t + 1) * spec.chosen);
    const auto want = reference::Route(options, row, Double(bias));
    const Doubles gradient = reference::RouteBackward(options, row, want.ids, g);
    for (size_t j = 0; j < want.ids.size(); ++j) {
      const size_t at = Size(t * spec.chosen) + j;
      ASSERT_EQ(got.ids[at], want.ids[j]) << "token " << t << " slot " << j;
      ASSERT_NEAR(got.weights[at], want.weights[j], unit * want.weights[j]);
    }
    double largest = 0;
    for (const double value : g) largest = std::max(largest, std::abs(value));
    for (size_t e = 0; e < row.size(); ++e) {
      ASSERT_NEAR(got.dlogits[Size(t * spec.experts) + e], gradient[e],
                  4 * unit * spec.scale * largest)
          << "token " << t << " expert " << e;
    }
  }
  const Routed again = RouteRows(spec, logits, bias, dweights);
  EXPECT_TRUE(again.ids == got.ids && SameBits(again.weights, got.weights) &&
              SameBits(again.dlogits, got.dlogits));
}

// Around the experts of 2, 4, 8 and 32 elements of a lane; tokens around the four of a block.
TEST(RouteGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t tokens : {1, 7}) {
    for (const bool renormalise : {false, true}) {
      for (const auto& [experts, chosen] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                                    {2, 1},
                                                                                    {5, 5},
                                                                                    {8, 2},
                                                                                    {17, 3},
                                                                                    {33, 32},
                                                                                    {64, 6},
                                                                                    {65, 8},
                                                                                    {128, 8},
                                                                                    {129, 4},
                                                                                    {256, 8},
                                                                                    {257, 4},
                                                                                    {1023, 10},
                                                                                    {1024, 8}}) {
        CheckRoute(
            {.experts = experts, .chosen = chosen, .renormalise = renormalise, .scale = 1.5f},
            tokens, false);
        CheckRoute({.experts = experts,
                    .chosen = chosen,
                    .score = RouterScore::kSigmoid,
                    .renormalise = renormalise,
                    .scale = 2.5f},
                   tokens, true);
      }
    }
  }
}

// All experts in their order, more than a warp has lanes.
TEST(RouteGpuTest, ChoosesAllOfMany) {
  for (const int64_t experts : {40, 256, 1024}) {
    for (const bool renormalise : {false, true}) {
      CheckRoute({.experts = experts, .chosen = experts, .renormalise = renormalise}, 5, false);
    }
  }
}

TEST(RouteGpuTest, MatchesReferenceForGroups) {
  for (const bool biased : {false, true}) {
    for (const auto& [groups, top] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {2, 1}, {4, 2}, {8, 8}, {12, 5}, {24, 6}}) {
      CheckRoute({.experts = 24,
                  .chosen = 3,
                  .score = RouterScore::kSigmoid,
                  .groups = groups,
                  .top_groups = top,
                  .renormalise = true},
                 9, biased);
    }
    for (const auto& [groups, top] :
         std::vector<std::pair<int64_t, int64_t>>{{8, 4}, {2, 1}, {64, 16}, {256, 8}}) {
      CheckRoute({.experts = 256,
                  .chosen = 8,
                  .score = RouterScore::kSigmoid,
                  .groups = groups,
                  .top_groups = top,
                  .renormalise = true,
                  .scale = 2.5f},
                 9, biased);
    }
  }
}

TEST(RouteGpuTest, TiesGoToTheLowerIndex) {
  const RouteSpec spec{.experts = 5, .chosen = 3};
  EXPECT_EQ(RouteRows(spec, {1, 3, 3, 2, 3}).ids, (Ints{1, 2, 4}));
  EXPECT_EQ(RouteRows(spec, Floats(5, 0.5f)).ids, (Ints{0, 1, 2}));
  EXPECT_EQ(RouteRows(spec, {-1.0f, -0.0f, 0.0f, -0.0f, 0.0f}).ids, (Ints{1, 2, 3}));
  // Across lanes and within one: experts 1, 33 and 65 are one lane's.
  const RouteSpec wide{.experts = 100, .chosen = 4};
  Floats logits(100, -1.0f);
  for (const size_t e : {65, 33, 1, 34, 70}) logits[e] = 2.0f;
  EXPECT_EQ(RouteRows(wide, logits).ids, (Ints{1, 33, 34, 65}));
  // Of groups too: all four sum to the same; the best of the first two are 1 and 2.
  const RouteSpec grouped{
      .experts = 8, .chosen = 2, .score = RouterScore::kSigmoid, .groups = 4, .top_groups = 2};
  EXPECT_EQ(RouteRows(grouped, {0, 1, 1, 0, 1, 0, 0, 1}).ids, (Ints{1, 2}));
}

// Logits that are equal as probabilities in float32 are still in order; infinities are too.
TEST(RouteGpuTest, SoftmaxIsChosenByLogits) {
  EXPECT_EQ(RouteRows({.experts = 3, .chosen = 2}, {-60.0f, -59.9f, 40.0f}).ids, (Ints{2, 1}));
  const float inf = std::numeric_limits<float>::infinity();
  const Routed got = RouteRows({.experts = 3, .chosen = 3}, {-inf, -3e38f, 1.0f});
  EXPECT_EQ(got.ids, (Ints{2, 1, 0}));
  EXPECT_EQ(got.weights, (Floats{1.0f, 0.0f, 0.0f}));
}

TEST(RouteGpuTest, BiasChoosesAndDoesNotWeigh) {
  const RouteSpec spec{.experts = 3, .chosen = 1, .score = RouterScore::kSigmoid};
  const Routed got = RouteRows(spec, {0.0f, 1.0f, 2.0f}, {10.0f, 0.0f, 0.0f});
  EXPECT_EQ(got.ids[0], 0);
  EXPECT_EQ(got.weights[0], 0.5f);
}

TEST(RouteGpuTest, NanOfARowStaysInItsRow) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const bool renormalise : {false, true}) {
      const RouteSpec spec{.experts = 70, .chosen = 2, .score = score, .renormalise = renormalise};
      Floats logits = Normal(3 * 70, 1, DType::kFloat32);
      const Routed clean = RouteRows(spec, logits);
      logits[70 + 66] = kNan;
      const Routed got = RouteRows(spec, logits);
      EXPECT_EQ(got.ids, (Ints{clean.ids[0], clean.ids[1], 0, 1, clean.ids[4], clean.ids[5]}));
      for (size_t i = 0; i < got.dlogits.size(); ++i) {
        const bool row = i / 70 == 1;
        EXPECT_EQ(std::isnan(got.dlogits[i]), row);
        if (!row) {
          EXPECT_EQ(got.dlogits[i], clean.dlogits[i]);
        }
      }
      for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(got.weights[i]), i / 2 == 1);
    }
  }
}

TEST(RouteGpuTest, NanOfTheBiasRoutesEveryRow) {
  const RouteSpec spec{.experts = 4, .chosen = 2, .score = RouterScore::kSigmoid};
  const Routed got = RouteRows(spec, Floats(8, 1.0f), {0, 0, kNan, 0});
  EXPECT_EQ(got.ids, (Ints{0, 1, 0, 1}));
  for (const float weight : got.weights) EXPECT_TRUE(std::isnan(weight));
}

// Infinities of a bias that cancel in the sum of a group leave no order among groups.
TEST(RouteGpuTest, GroupsWithoutAnOrderRouteAsNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const RouteSpec spec{
      .experts = 4, .chosen = 2, .score = RouterScore::kSigmoid, .groups = 2, .top_groups = 1};
  const Routed got = RouteRows(spec, {1, 2, 3, 4}, {inf, -inf, 0, 0});
  EXPECT_EQ(got.ids, (Ints{0, 1}));
  EXPECT_TRUE(std::isnan(got.weights[0]) && std::isnan(got.weights[1]));
}

TEST(RouteGpuTest, PaddingHasNoExpertAndIsNotRead) {
  const RouteSpec spec{.experts = 3, .chosen = 2};
  Floats logits = Normal(9, 1, DType::kFloat32);
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
TEST(RouteGpuTest, ExtremeLogits) {
  const Routed softmax =
      RouteRows({.experts = 2, .chosen = 2, .renormalise = true}, {3e38f, -3e38f});
  EXPECT_EQ(softmax.weights, (Floats{1.0f, 0.0f}));
  const RouteSpec sigmoid{
      .experts = 2, .chosen = 1, .score = RouterScore::kSigmoid, .renormalise = true};
  EXPECT_EQ(RouteRows(sigmoid, {-200.0f, -300.0f}).weights[0], 0.0f);
  EXPECT_EQ(RouteRows(sigmoid, {200.0f, 0.0f}).weights[0], 1.0f);
}

TEST(RouteGpuTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(RouteSupports({.experts = kMostExperts + 1, .chosen = 1}));
  EXPECT_FALSE(RouteSupports({.experts = 4, .chosen = 1, .groups = 2, .top_groups = 1}));
  EXPECT_THROW(RouteRows({.experts = 2, .chosen = 1}, {1, 2}, {0, 0}), std::invalid_argument);
  EXPECT_THROW(RouteForward({.spec = {.experts = 2, .chosen = 3}}, TestStream()),
               std::invalid_argument);
  EXPECT_THROW(RouteBackward({.spec = {.experts = 2, .chosen = 1}, .tokens = -1}, TestStream()),
               std::invalid_argument);
  RouteForward({.spec = {.experts = 2, .chosen = 1}}, TestStream());
  RouteBackward({.spec = {.experts = 2, .chosen = 1}}, TestStream());
}

}  // namespace
}  // namespace gpu_route_test
}  // namespace coxswain::kernels
