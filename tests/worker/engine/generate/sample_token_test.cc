#include "worker/engine/generate/sample_token.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace coxswain::engine {
namespace sample_token_test {
namespace {

constexpr uint32_t kDraws = 20000;

// How often each token is drawn, as a part of all.
std::map<int32_t, double> Frequencies(const std::vector<float>& logits, const Sampling& sampling) {
  std::map<int32_t, double> frequencies;
  for (uint32_t position = 0; position < kDraws; ++position) {
    frequencies[SampleToken(logits, sampling, {.position = position})] += 1.0 / kDraws;
  }
  return frequencies;
}

// Five standard deviations of a frequency: 5 sqrt(p (1 - p) / n) is at most 0.018.
constexpr double kTolerance = 0.018;

std::vector<float> LogsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3.0f);
  return logits;
}

TEST(SampleTokenTest, DrawsByTheSoftmaxAtTheTemperature) {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  const auto plain = Frequencies(LogsOf(p), {.temperature = 1});
  const auto cold = Frequencies(LogsOf(p), {.temperature = 0.5});
  for (int32_t i = 0; i < 4; ++i) {
    const double at = p[static_cast<size_t>(i)];
    EXPECT_NEAR(plain.at(i), at, kTolerance);
    EXPECT_NEAR(cold.at(i), at * at / 0.3, kTolerance);  // 0.3: sum of the squares
  }
}

TEST(SampleTokenTest, TopKLeavesTheLikeliest) {
  const auto two = Frequencies(LogsOf({0.1, 0.4, 0.2, 0.3}), {.temperature = 1, .top_k = 2});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 4.0 / 7, kTolerance);
  EXPECT_NEAR(two.at(3), 3.0 / 7, kTolerance);
  EXPECT_EQ(Frequencies(LogsOf({0.25, 0.25, 0.25, 0.25}), {.temperature = 1, .top_k = 1}),
            (std::map<int32_t, double>{{0, Frequencies({0}, {.temperature = 1}).at(0)}}));
}

// The one that reaches top_p is left, and the sum is that of what top_k left.
TEST(SampleTokenTest, TopPLeavesTheLikeliestThatReachIt) {
  const std::vector<float> logits = LogsOf({0.1, 0.4, 0.2, 0.3});
  const auto two = Frequencies(logits, {.temperature = 1, .top_p = 0.6});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 4.0 / 7, kTolerance);
  EXPECT_EQ(Frequencies(logits, {.temperature = 1, .top_p = 0.75}).size(), 3u);
  EXPECT_EQ(Frequencies(logits, {.temperature = 1, .top_k = 2, .top_p = 0.56}).size(), 1u);
}

// More tokens than are sorted at first.
TEST(SampleTokenTest, TopPReachesBehindThousandsOfTokens) {
  const std::vector<float> logits(5000, 1.5f);
  int32_t highest = 0;
  for (const auto& [id, frequency] : Frequencies(logits, {.temperature = 1, .top_p = 0.5})) {
    highest = std::max(highest, id);
  }
  EXPECT_GT(highest, 2400);
  EXPECT_LT(highest, 2500);
}

TEST(SampleTokenTest, ADrawIsOfSeedTextAndPosition) {
  const std::vector<float> logits(1000, 0.0f);
  const auto draw = [&](uint64_t seed, DrawPlace place) {
    return SampleToken(logits, {.temperature = 1, .seed = seed}, place);
  };
  EXPECT_EQ(draw(1, {2, 3}), draw(1, {2, 3}));
  EXPECT_NE(draw(1, {2, 3}), draw(2, {2, 3}));
  EXPECT_NE(draw(1, {2, 3}), draw(1, {3, 3}));
  EXPECT_NE(draw(1, {2, 3}), draw(1, {2, 4}));
}

TEST(SampleTokenTest, SoftcapBoundsLogits) {
  std::vector<float> logits = {-1e9f, 0.0f, 3.0f};
  SoftcapLogits(2.0, &logits);
  EXPECT_EQ(logits[0], -2.0f);
  EXPECT_EQ(logits[1], 0.0f);
  EXPECT_NEAR(logits[2], 2.0 * std::tanh(1.5), 1e-6);
  SoftcapLogits(0, &logits);
  EXPECT_EQ(logits[0], -2.0f);
}

}  // namespace
}  // namespace sample_token_test
}  // namespace coxswain::engine
