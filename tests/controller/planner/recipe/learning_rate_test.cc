#include "controller/planner/recipe/learning_rate.h"

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/golden_folder.h"

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

// Factors of the peak, of the lambdas of transformers (optimization.py) with W = 4 and N = 20;
// lr_end of the polynomial and min_lr_ratio of warmup_stable_decay: 0.1 of the peak.
TEST(LearningRateTest, EqualsTransformers) {
  using config::DecayType;
  constexpr int64_t kSteps[] = {4, 5, 9, 10, 15, 16, 19};
  struct Case {
    LearningRate rate;
    double factors[7];
  };
  using Kwargs = config::LrSchedulerKwargs;
  const auto made = [](LrScheduler scheduler, double min_ratio, void (*set)(Kwargs&)) {
    config::TrainSpec train = config::DefaultSpec().train;
    train.learning_rate = 2e-4;
    train.min_lr_ratio = min_ratio;
    train.warmup_steps = 4;
    train.lr_scheduler = scheduler;
    set(train.lr_scheduler_kwargs);
    return MakeLearningRate(train, 20);
  };
  const auto defaults = [](Kwargs&) {};
  const auto restarts = LrScheduler::kCosineWithRestarts;
  const auto stable = LrScheduler::kWarmupStableDecay;
  const Case cases[] = {
      {made(restarts, 0, [](Kwargs& k) { k.num_cycles = 3; }),
       {1, 0.91573480615127267, 0.0096073597983847847, 0.96193976625564337, 0.99039264020161522,
        0.85355339059327373, 0.084265193848727327}},
      {made(restarts, 0, defaults),
       {1, 0.99039264020161522, 0.77778511650980109, 0.69134171618254492, 0.22221488349019902,
        0.14644660940672627, 0.0096073597983847847}},
      {made(LrScheduler::kPolynomial, 0.1, [](Kwargs& k) { k.power = 2; }),
       {1, 0.891015625, 0.525390625, 0.4515625, 0.187890625, 0.15625, 0.103515625}},
      {made(LrScheduler::kPolynomial, 0, defaults),
       {1, 0.9375, 0.6875, 0.625, 0.3125, 0.25, 0.0625}},
      {made(LrScheduler::kInverseSqrt, 0, defaults),
       {1, 0.89442719099991586, 0.66666666666666663, 0.63245553203367588, 0.5163977794943222, 0.5,
        0.45883146774112349}},
      {made(LrScheduler::kInverseSqrt, 0, [](Kwargs& k) { k.timescale = 100; }),
       {1, 0.99503719020998926, 0.97590007294853309, 0.97128586235726422, 0.94915799575249904,
        0.94491118252306794, 0.93250480824031379}},
      {made(stable, 0.1,
            [](Kwargs& k) {
              k.num_decay_steps = 8;
              k.decay_type = DecayType::kLinear;
            }),
       {1, 1, 1, 1, 0.6625, 0.55, 0.2125}},
      {made(stable, 0.1, [](Kwargs& k) { k.num_decay_steps = 8; }),
       {1, 1, 1, 1, 0.72220754456429037, 0.55, 0.13425421036992097}},
      {made(stable, 0.1,
            [](Kwargs& k) {
              k.decay_ratio = 0.4;
              k.decay_type = DecayType::kOneMinusSqrt;
            }),
       {1, 1, 1, 1, 0.44886480787378502, 0.36360389693210715, 0.15812708797586322}},
  };
  for (const Case& c : cases) {
    const int name = static_cast<int>(c.rate.scheduler);
    for (int s = 0; s < 4; ++s) EXPECT_DOUBLE_EQ(c.rate.At(s), 2e-4 * (s + 1) / 4) << name;
    for (int i = 0; i < 7; ++i) {
      EXPECT_NEAR(c.rate.At(kSteps[i]) / 2e-4, c.factors[i], 1e-15)
          << name << " step " << kSteps[i];
    }
  }
}

TEST(LearningRateTest, ADecayTakesAtMostWhatWarmUpLeaves) {
  config::TrainSpec train = config::DefaultSpec().train;
  train.learning_rate = 1;
  train.warmup_steps = 4;
  train.lr_scheduler = LrScheduler::kWarmupStableDecay;
  train.lr_scheduler_kwargs.num_decay_steps = 100;
  const LearningRate rate = MakeLearningRate(train, 20);
  EXPECT_EQ(rate.decay_steps, 16);
  EXPECT_EQ(rate.At(4), 1);
  EXPECT_LT(rate.At(5), 1);
  train.warmup_steps = 30;  // longer than the job
  EXPECT_EQ(MakeLearningRate(train, 20).decay_steps, 0);
  train.warmup_steps = 0;
  train.lr_scheduler = LrScheduler::kInverseSqrt;
  EXPECT_EQ(MakeLearningRate(train, 20).timescale, 10000);
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
  config::TrainSpec train = config::DefaultSpec().train;
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
  const auto expected =
      nlohmann::json::parse(std::ifstream(support::GoldenFolder("qwen2_full") + "/expected.json"));
  LearningRate schedule = Schedule(LrScheduler::kCosine);
  schedule.peak = expected["optimizer"]["lr"];
  ASSERT_EQ(expected["trajectory"].size(), 20u);
  for (const auto& step : expected["trajectory"]) {
    EXPECT_DOUBLE_EQ(schedule.At(step["step"].get<int64_t>()), step["lr"].get<double>());
  }
}

}  // namespace
}  // namespace coxswain::planner
