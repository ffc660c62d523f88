// Detects that the loss of a run rises. Diagnosis of a run begins here.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace coxswain::checkpoint {

// The mean loss of LossTrend::kSteps steps. `step` is the last of them, counted as finished steps.
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

// Part of the run's state: a resumed run keeps its trend.
struct LossTrend {
  static constexpr size_t kSteps = 20;
  static constexpr double kAllowed = 0.5;           // allowed rise above the lowest mean, in nats,
  static constexpr double kAllowedFraction = 0.25;  // or this fraction of it, whichever is more

  std::deque<double> recent;       // losses of the newest steps, at most kSteps
  std::optional<LossMean> lowest;  // lowest mean of all steps so far
  std::optional<LossRise> rise;    // the first rise of the run; it stays

  // Call it after finished step `step`. A loss that is not finite is ignored: its step was skipped.
  void Add(int64_t step, double loss);
  bool RoseAt(int64_t step) const { return rise && rise->now.step == step; }
  bool operator==(const LossTrend&) const = default;
};

// The rise as a sentence. `learning_rate`: that of the last step of the rise.
std::string RiseText(const LossRise& rise, double learning_rate);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_LOSS_TREND_H_
