#include "controller/driver/training/step_rate.h"

namespace coxswain::driver {

void StepRate::Add(double seconds, int64_t tokens) {
  samples_.push_back({seconds, tokens});
  if (samples_.size() > kSteps) samples_.pop_front();
}

double StepRate::tokens_per_second() const {
  double seconds = 0, tokens = 0;
  for (const Sample& sample : samples_) {
    seconds += sample.seconds;
    tokens += static_cast<double>(sample.tokens);
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double StepRate::seconds_per_step() const {
  double seconds = 0;
  for (const Sample& sample : samples_) seconds += sample.seconds;
  return samples_.empty() ? 0 : seconds / static_cast<double>(samples_.size());
}

}  // namespace coxswain::driver
