#include "controller/planner/learning_rate.h"

#include <cmath>
#include <numbers>

namespace coxswain::planner {

double LearningRate::At(int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (scheduler == config::LrScheduler::kConstant) return peak;
  const double t =
      static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
  const double decay = scheduler == config::LrScheduler::kCosine
                           ? 0.5 * (1.0 + std::cos(std::numbers::pi * t))
                           : 1.0 - t;
  return peak * (min_ratio + (1.0 - min_ratio) * decay);
}

int64_t WarmupSteps(const config::TrainSpec& train, int64_t total_steps) {
  if (train.warmup_steps.has_value()) return *train.warmup_steps;
  const double steps = train.warmup_ratio.value_or(0.0) * static_cast<double>(total_steps);
  // A product such as 0.07 x 100 lies a rounding error above its integer.
  return static_cast<int64_t>(std::ceil(steps - 1e-9));
}

LearningRate MakeLearningRate(const config::TrainSpec& train, int64_t total_steps) {
  return {.peak = train.learning_rate,
          .min_ratio = train.min_lr_ratio,
          .warmup_steps = WarmupSteps(train, total_steps),
          .total_steps = total_steps,
          .scheduler = train.lr_scheduler};
}

}  // namespace coxswain::planner
