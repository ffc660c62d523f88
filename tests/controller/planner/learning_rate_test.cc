#include "controller/planner/learning_rate.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace coxswain::planner {
namespace {

using config::LrScheduler;

LearningRate Schedule(LrScheduler scheduler) {
  return {
      .peak = 2e-4, .min_ratio = 0.1, .warmup_steps = 4, .total_steps = 20, .scheduler = scheduler};
}

// Invariant planner-4.
TEST(LearningRateTest, EqualsTheLiteralFormula) {
  for (int s = 0; s < 20; ++s) {
    const double warm = 2e-4 * (s + 1) / 4;
    const double t = (s - 4) / 16.0;
    const double cosine = 2e-4 * (0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI * t)));
    const double linear = 2e-4 * (0.1 + 0.9 * (1 - t));
    EXPECT_DOUBLE_EQ(Schedule(LrScheduler::kCosine).At(s), s < 4 ? warm : cosine) << s;
    EXPECT_DOUBLE_EQ(Schedule(LrScheduler::kLinear).At(s), s < 4 ? warm : linear) << s;
    EXPECT_DOUBLE_EQ(Schedule(LrScheduler::kConstant).At(s), s < 4 ? warm : 2e-4) << s;
  }
}

TEST(LearningRateTest, WarmUpReachesThePeakAndNothingStartsAtZero) {
  const LearningRate cosine = Schedule(LrScheduler::kCosine);
  EXPECT_DOUBLE_EQ(cosine.At(0), 2e-4 / 4);
  EXPECT_DOUBLE_EQ(cosine.At(3), 2e-4);
  EXPECT_DOUBLE_EQ(cosine.At(4), 2e-4);
  LearningRate none = cosine;
  none.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(none.At(0), 2e-4);
  LearningRate all = cosine;
  all.warmup_steps = 40;  // longer than the job: never leaves the ramp
  EXPECT_DOUBLE_EQ(all.At(19), 2e-4 * 20 / 40);
}

TEST(LearningRateTest, WarmupStepsOfARatioRoundUp) {
  config::TrainSpec train;
  for (const auto& [ratio, total, expected] : {std::tuple{0.1, 40, 4},
                                               {0.03, 100, 3},
                                               {0.03, 10, 1},
                                               {0.07, 100, 7},
                                               {0.0, 100, 0},
                                               {1.0, 9, 9},
                                               {0.5, 5, 3}}) {
    train.warmup_ratio = ratio;
    EXPECT_EQ(WarmupSteps(train, total), expected) << ratio << " of " << total;
  }
  train.warmup_ratio.reset();
  EXPECT_EQ(WarmupSteps(train, 100), 0);
  train.warmup_steps = 12;
  EXPECT_EQ(WarmupSteps(train, 100), 12);
}

// The schedule under which the golden files were trained.
TEST(LearningRateTest, EqualsTheGoldenTrajectory) {
  const char* shared = std::getenv("COXSWAIN_SHARED");
  const std::filesystem::path path =
      std::filesystem::path(shared != nullptr ? shared : "../shared") /
      "fixtures/qwen2_full/expected.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs ../shared/fixtures";
  const auto expected = nlohmann::json::parse(std::ifstream(path));
  LearningRate schedule = Schedule(LrScheduler::kCosine);
  schedule.peak = expected["optimizer"]["lr"];
  ASSERT_EQ(expected["trajectory"].size(), 20u);
  for (const auto& step : expected["trajectory"]) {
    EXPECT_DOUBLE_EQ(schedule.At(step["step"].get<int64_t>()), step["lr"].get<double>());
  }
}

}  // namespace
}  // namespace coxswain::planner
