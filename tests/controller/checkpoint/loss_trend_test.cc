#include "controller/checkpoint/loss_trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "controller/checkpoint/run_json.h"

namespace coxswain::checkpoint {
namespace {

constexpr auto kWindow = static_cast<int64_t>(LossTrend::kSteps);

// `count` more steps of this loss; the number of the last.
int64_t Add(LossTrend* trend, int64_t from, int64_t count, double loss) {
  for (int64_t step = from + 1; step <= from + count; ++step) trend->Add(step, loss);
  return from + count;
}

TEST(LossTrendTest, TellsTheFirstMeanThatIsTooFarAboveTheLowest) {
  LossTrend trend;
  int64_t step = Add(&trend, 0, kWindow, 10);
  step = Add(&trend, step, kWindow, 4);
  step = Add(&trend, step, kWindow, 5);  // 25 % above 4 is 5: not more
  EXPECT_FALSE(trend.rise);
  trend.Add(++step, 5.1);
  ASSERT_TRUE(trend.RoseAt(step));
  EXPECT_EQ(trend.rise->lowest, (LossMean{.step = 2 * kWindow, .loss = 4}));
  const LossRise first = *trend.rise;
  step = Add(&trend, step, kWindow, 6000);
  EXPECT_EQ(trend.rise, first);
  EXPECT_FALSE(trend.RoseAt(step));
}

TEST(LossTrendTest, BelowTwoNatsHalfANatIsAllowed) {
  LossTrend trend;
  int64_t step = Add(&trend, 0, kWindow, 1);
  step = Add(&trend, step, kWindow, 1.5);
  EXPECT_FALSE(trend.rise);
  Add(&trend, step, 1, 1.6);
  EXPECT_TRUE(trend.rise);
}

TEST(LossTrendTest, OneStepAndWhatIsNotFiniteAreNoRise) {
  LossTrend trend;
  int64_t step = Add(&trend, 0, kWindow, 2);
  step = Add(&trend, step, 1, std::nan(""));
  step = Add(&trend, step, 1, 11.9);  // the mean rises by less than a half
  EXPECT_FALSE(trend.rise);
  EXPECT_EQ(trend.recent.size(), LossTrend::kSteps);
}

TEST(LossTrendTest, IsKeptOverACheckpoint) {
  RunState run;
  int64_t step = Add(&run.loss_trend, 0, kWindow, 2);
  Add(&run.loss_trend, step, kWindow, 1.0 / 3 + 8);
  ASSERT_TRUE(run.loss_trend.rise);
  EXPECT_EQ(RunFromJson(RunJson(run)).loss_trend, run.loss_trend);
  nlohmann::json earlier = RunJson(run);
  earlier.erase("loss_trend");
  EXPECT_EQ(RunFromJson(earlier).loss_trend, LossTrend());
}

TEST(LossTrendTest, TheTextNamesBothMeansAndTheRate) {
  const LossRise rise{.lowest = {.step = 40, .loss = 6.02}, .now = {.step = 60, .loss = 12.31}};
  const std::string text = RiseText(rise, 50);
  for (const char* part : {"steps 41 to 60 is 12.31", "6.02 (steps 21 to 40)", "rate is 50"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace coxswain::checkpoint
