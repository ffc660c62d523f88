// The sum of several intervals in a sequence of launches on one stream. If a graph replays the
// launches, the sum is that of the last replay.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_STOPWATCH_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_STOPWATCH_H_

#include <cstddef>
#include <vector>

#include "worker/engine/device/device_handles.h"

namespace coxswain::engine {

class Stopwatch {
 public:
  void Reset() { intervals_ = 0; }
  void Start(kernels::Stream* stream) {
    if (intervals_ == events_.size()) events_.emplace_back();
    kernels::RecordTime(events_[intervals_].begin.get(), stream);
  }
  void Stop(kernels::Stream* stream) {
    kernels::RecordTime(events_[intervals_++].end.get(), stream);
  }
  // The sum is known once the stream is past the last interval.
  double Seconds() const {
    double sum = 0;
    for (size_t i = 0; i < intervals_; ++i) {
      sum += kernels::SecondsBetween(events_[i].begin.get(), events_[i].end.get());
    }
    return sum;
  }

 private:
  struct Interval {
    EventHandle begin, end;
  };
  std::vector<Interval> events_;  // kept from sweep to sweep
  size_t intervals_ = 0;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_STOPWATCH_H_
