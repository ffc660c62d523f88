#include "controller/gang/step_timing.h"

#include <algorithm>
#include <vector>

namespace coxswain::gang {
namespace {

constexpr size_t kMedianWindow = 101;

std::chrono::milliseconds AtLeast(std::chrono::milliseconds floor, double seconds) {
  return std::max(floor, std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
}

}  // namespace

void StepTiming::Add(double seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() > kMedianWindow) seconds_.pop_front();
  ++count_;
}

double StepTiming::median_seconds() const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted(seconds_.begin(), seconds_.end());
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::chrono::milliseconds StepTiming::Limit(std::chrono::milliseconds first,
                                            std::chrono::milliseconds floor, double medians) const {
  return count_ < kWarmUpSteps ? first : AtLeast(floor, medians * median_seconds());
}

std::chrono::milliseconds StepTiming::HangLimit(std::chrono::milliseconds first,
                                                std::chrono::milliseconds floor) const {
  return Limit(first, floor, 5);
}

std::chrono::milliseconds StepTiming::CollectiveLimit(std::chrono::milliseconds first,
                                                      std::chrono::milliseconds floor) const {
  return Limit(first, floor, 2);
}

std::chrono::milliseconds StepTiming::DrainLimit(std::chrono::milliseconds floor) const {
  return AtLeast(floor, 5 * median_seconds());
}

}  // namespace coxswain::gang
