// The ends of the phases of a step, measured in the stream and read after the step.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_TIMELINE_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_TIMELINE_H_

#include <cstddef>
#include <vector>

#include "worker/engine/device/device_handles.h"

namespace coxswain::engine {

class Timeline {
 public:
  // Starts a new step.
  void Begin(kernels::Stream* stream) {
    marks_ = 0;
    Mark(nullptr, stream);
  }
  // Counts the work since the last mark to `*phase`; null: to no phase.
  void Mark(double* phase, kernels::Stream* stream) {
    if (marks_ == events_.size()) {
      events_.emplace_back();
      phases_.push_back(nullptr);
    }
    events_[marks_].Record(stream);
    phases_[marks_++] = phase;
  }
  // Waits for the last mark, adds each interval to its phase and returns the total seconds.
  double Finish() {
    events_[marks_ - 1].Wait();
    for (size_t i = 1; i < marks_; ++i) {
      const double seconds = kernels::SecondsBetween(events_[i - 1].get(), events_[i].get());
      if (phases_[i] != nullptr) *phases_[i] += seconds;
    }
    return kernels::SecondsBetween(events_[0].get(), events_[marks_ - 1].get());
  }

 private:
  std::vector<EventHandle> events_;  // kept from step to step
  std::vector<double*> phases_;
  size_t marks_ = 0;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_TIMELINE_H_
