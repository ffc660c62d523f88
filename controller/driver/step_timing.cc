#include "controller/driver/step_timing.h"

#include <algorithm>
#include <vector>

namespace coxswain::driver {
namespace {

constexpr size_t kMedianWindow = 101;
constexpr size_t kRateWindow = 10;

}  // namespace

void StepTiming::Add(int64_t began_ns, int64_t now_ns, int64_t tokens) {
  samples_.push_back({static_cast<double>(now_ns - began_ns) * 1e-9, tokens});
  if (samples_.size() > kMedianWindow) samples_.pop_front();
  ++count_;
}

double StepTiming::tokens_per_second() const {
  double seconds = 0, tokens = 0;
  const size_t n = std::min(kRateWindow, samples_.size());
  for (size_t i = samples_.size() - n; i < samples_.size(); ++i) {
    seconds += samples_[i].seconds;
    tokens += static_cast<double>(samples_[i].tokens);
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double StepTiming::seconds_per_step() const {
  double seconds = 0;
  const size_t n = std::min(kRateWindow, samples_.size());
  for (size_t i = samples_.size() - n; i < samples_.size(); ++i) seconds += samples_[i].seconds;
  return n > 0 ? seconds / static_cast<double>(n) : 0;
}

double StepTiming::median_seconds() const {
  if (samples_.empty()) return 0;
  std::vector<double> seconds;
  for (const Sample& sample : samples_) seconds.push_back(sample.seconds);
  auto middle = seconds.begin() + static_cast<int64_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::chrono::milliseconds StepTiming::Limit(std::chrono::milliseconds first,
                                            std::chrono::milliseconds floor, double medians) const {
  if (count_ < kWarmUpSteps) return first;
  const auto ms = static_cast<int64_t>(1000 * medians * median_seconds());
  return std::max(floor, std::chrono::milliseconds(ms));
}

std::chrono::milliseconds StepTiming::HangLimit(std::chrono::milliseconds first,
                                                std::chrono::milliseconds floor) const {
  return Limit(first, floor, 5);
}

std::chrono::milliseconds StepTiming::CollectiveLimit(std::chrono::milliseconds first,
                                                      std::chrono::milliseconds floor) const {
  return Limit(first, floor, 2);
}

}  // namespace coxswain::driver
