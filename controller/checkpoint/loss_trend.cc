#include "controller/checkpoint/loss_trend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"

namespace coxswain::checkpoint {
namespace {

bool IsRise(double lowest, double now) {
  return now - lowest >
         std::max(LossTrend::kAllowed, LossTrend::kAllowedFraction * std::abs(lowest));
}

int64_t FirstStep(const LossMean& mean) {
  return mean.step - static_cast<int64_t>(LossTrend::kSteps) + 1;
}

}  // namespace

void LossTrend::Add(int64_t step, double loss) {
  if (!std::isfinite(loss)) return;
  recent.push_back(loss);
  if (recent.size() > kSteps) recent.pop_front();
  if (recent.size() < kSteps) return;
  const double sum = std::accumulate(recent.begin(), recent.end(), 0.0);
  const LossMean mean{.step = step, .loss = sum / static_cast<double>(kSteps)};
  if (!rise && lowest && IsRise(lowest->loss, mean.loss)) rise = {.lowest = *lowest, .now = mean};
  if (!lowest || mean.loss < lowest->loss) lowest = mean;
}

std::string RiseText(const LossRise& rise, double learning_rate) {
  return absl::StrFormat(
      "the loss rises: its mean over steps %d to %d is %.4g, the lowest mean of %d steps before "
      "was "
      "%.4g (steps %d to %d). The learning rate is %.4g; if the loss stays up, cancel the job and "
      "train again with a lower train.learning_rate or a longer warm-up",
      FirstStep(rise.now), rise.now.step, rise.now.loss, LossTrend::kSteps, rise.lowest.loss,
      FirstStep(rise.lowest), rise.lowest.step, learning_rate);
}

}  // namespace coxswain::checkpoint
