// How long steps take: throughput for users, limits for the hang rule.
#ifndef COXSWAIN_CONTROLLER_DRIVER_STEP_TIMING_H_
#define COXSWAIN_CONTROLLER_DRIVER_STEP_TIMING_H_

#include <chrono>
#include <cstdint>
#include <deque>

namespace coxswain::driver {

class StepTiming {
 public:
  static constexpr int64_t kWarmUpSteps = 2;  // not representative: caches, first touch

  // A step of `tokens` was committed at `now_ns`; the one before it, or the start, at `began_ns`.
  void Add(int64_t began_ns, int64_t now_ns, int64_t tokens);

  double tokens_per_second() const;  // over the last 10 steps, 0 before the first
  double seconds_per_step() const;   // over the last 10 steps, 0 before the first
  double last_seconds() const { return samples_.empty() ? 0 : samples_.back().seconds; }
  double median_seconds() const;  // over the last 101 steps, 0 before the first
  // No answer for this long is a hang: `first` until the warm-up steps are done, then
  // max(`floor`, 5 x median).
  std::chrono::milliseconds HangLimit(std::chrono::milliseconds first,
                                      std::chrono::milliseconds floor) const;
  // A rank that keeps others waiting in a collective for this long hangs: as above, 2 x median.
  std::chrono::milliseconds CollectiveLimit(std::chrono::milliseconds first,
                                            std::chrono::milliseconds floor) const;

 private:
  struct Sample {
    double seconds = 0;
    int64_t tokens = 0;
  };
  std::chrono::milliseconds Limit(std::chrono::milliseconds first, std::chrono::milliseconds floor,
                                  double medians) const;

  std::deque<Sample> samples_;
  int64_t count_ = 0;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_STEP_TIMING_H_
