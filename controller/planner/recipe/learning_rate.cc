#include "controller/planner/recipe/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coxswain::planner {
namespace {

using config::DecayType;
using config::LrScheduler;

// Of transformers, where there is no warm-up to take it from.
constexpr int64_t kDefaultTimescale = 10000;

double HalfCosine(double t) { return 0.5 * (1.0 + std::cos(std::numbers::pi * t)); }

// A product such as 0.07 x 100 lies a rounding error above its integer.
int64_t StepsOf(double ratio, int64_t total_steps) {
  return static_cast<int64_t>(std::ceil(ratio * static_cast<double>(total_steps) - 1e-9));
}

double StableDecay(const LearningRate& rate, int64_t step) {
  const int64_t into = step - (rate.total_steps - rate.decay_steps);
  if (into < 0) return 1.0;
  const double u = static_cast<double>(into) / static_cast<double>(rate.decay_steps);
  if (rate.decay_type == DecayType::kLinear) return 1.0 - u;
  return rate.decay_type == DecayType::kCosine ? HalfCosine(u) : 1.0 - std::sqrt(u);
}

// d of learning_rate.h.
double Decay(const LearningRate& rate, int64_t step) {
  const auto past = static_cast<double>(step - rate.warmup_steps);
  const double t = past / static_cast<double>(rate.total_steps - rate.warmup_steps);
  switch (rate.scheduler) {
    case LrScheduler::kConstant:
      return 1.0;
    case LrScheduler::kCosine:
      return HalfCosine(t);
    case LrScheduler::kLinear:
      return 1.0 - t;
    case LrScheduler::kCosineWithRestarts:
      return HalfCosine(std::fmod(static_cast<double>(rate.num_cycles) * t, 1.0));
    case LrScheduler::kPolynomial:
      return std::pow(1.0 - t, rate.power);
    case LrScheduler::kInverseSqrt:
      return std::sqrt(static_cast<double>(rate.timescale) /
                       (past + static_cast<double>(rate.timescale)));
    case LrScheduler::kWarmupStableDecay:
      return StableDecay(rate, step);
  }
  return 1.0;
}

}  // namespace

double LearningRate::At(int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (scheduler == LrScheduler::kConstant) return peak;
  return peak * (min_ratio + (1.0 - min_ratio) * Decay(*this, step));
}

int64_t WarmupSteps(const config::TrainSpec& train, int64_t total_steps) {
  if (train.warmup_steps.has_value()) return *train.warmup_steps;
  return StepsOf(train.warmup_ratio.value_or(0.0), total_steps);
}

LearningRate MakeLearningRate(const config::TrainSpec& train, int64_t total_steps) {
  const config::LrSchedulerKwargs& kwargs = train.lr_scheduler_kwargs;
  const int64_t warmup = WarmupSteps(train, total_steps);
  const int64_t decay = kwargs.num_decay_steps.value_or(StepsOf(kwargs.decay_ratio, total_steps));
  return {.peak = train.learning_rate,
          .min_ratio = train.min_lr_ratio,
          .warmup_steps = warmup,
          .total_steps = total_steps,
          .scheduler = train.lr_scheduler,
          .num_cycles = kwargs.num_cycles,
          .power = kwargs.power,
          .timescale = kwargs.timescale.value_or(warmup > 0 ? warmup : kDefaultTimescale),
          .decay_steps = std::clamp<int64_t>(decay, 0, std::max<int64_t>(total_steps - warmup, 0)),
          .decay_type = kwargs.decay_type};
}

}  // namespace coxswain::planner
