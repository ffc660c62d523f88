// Whether the loss of a run rises: the first thing that diagnosis of a run looks at.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace coxswain::checkpoint {

// A mean of the losses of LossTrend::kSteps steps, the last of which is finished step `step`.
struct LossMean {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const LossMean&) const = default;
};

// `now` is above `lowest` by more than LossTrend allows.
struct LossRise {
  LossMean lowest, now;
  bool operator==(const LossRise&) const = default;
};

// Part of the run's state: a run that goes on elsewhere has the trend that it had.
struct LossTrend {
  static constexpr size_t kSteps = 20;
  static constexpr double kAllowed = 0.5;           // above the lowest mean, nats,
  static constexpr double kAllowedFraction = 0.25;  // or this part of it, whichever is more

  std::deque<double> recent;       // losses of the newest steps, at most kSteps
  std::optional<LossMean> lowest;  // of all steps so far
  std::optional<LossRise> rise;    // the first of the run; it stays

  // After finished step `step`. A loss that is not finite is left out: its step was skipped.
  void Add(int64_t step, double loss);
  bool RoseAt(int64_t step) const { return rise && rise->now.step == step; }
  bool operator==(const LossTrend&) const = default;
};

// For people. `learning_rate`: of the last step of the rise.
std::string RiseText(const LossRise& rise, double learning_rate);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_
