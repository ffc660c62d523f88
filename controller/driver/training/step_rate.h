// How fast a job trains, over its newest steps.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_RATE_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_RATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace coxswain::driver {

class StepRate {
 public:
  static constexpr size_t kSteps = 10;  // that count

  // A step of `tokens`, all ranks, was committed so long after its turn had come.
  void Add(double seconds, int64_t tokens);

  // Each is 0 before the first step.
  double tokens_per_second() const;
  double seconds_per_step() const;

 private:
  struct Sample {
    double seconds = 0;
    int64_t tokens = 0;
  };
  std::deque<Sample> samples_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_STEP_RATE_H_
