// How long steps take: the limits of silence that follow from it.
#ifndef COXSWAIN_CONTROLLER_GANG_STEP_TIMING_H_
#define COXSWAIN_CONTROLLER_GANG_STEP_TIMING_H_

#include <chrono>
#include <cstdint>
#include <deque>

namespace coxswain::gang {

class StepTiming {
 public:
  static constexpr int64_t kWarmUpSteps = 2;  // not representative: caches, first touch

  void Add(double seconds);  // of a step that every rank has finished

  bool warming_up() const { return count_ < kWarmUpSteps; }
  double median_seconds() const;  // over the last 101 steps, 0 before the first
  // No answer for this long is a hang: `first` until the warm-up steps are done, then
  // max(`floor`, 5 x median).
  std::chrono::milliseconds HangLimit(std::chrono::milliseconds first,
                                      std::chrono::milliseconds floor) const;
  // A rank that keeps others waiting in a collective for this long hangs: as above, 2 x median.
  std::chrono::milliseconds CollectiveLimit(std::chrono::milliseconds first,
                                            std::chrono::milliseconds floor) const;
  // Time for the commands in flight when a drain begins: max(`floor`, 5 x median).
  std::chrono::milliseconds DrainLimit(std::chrono::milliseconds floor) const;

 private:
  std::chrono::milliseconds Limit(std::chrono::milliseconds first, std::chrono::milliseconds floor,
                                  double medians) const;

  std::deque<double> seconds_;
  int64_t count_ = 0;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_STEP_TIMING_H_
