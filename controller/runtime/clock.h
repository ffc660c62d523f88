// The seam to time. SystemClock in production, VirtualClock (tests/sim) in the simulator.
#ifndef COXSWAIN_CONTROLLER_RUNTIME_CLOCK_H_
#define COXSWAIN_CONTROLLER_RUNTIME_CLOCK_H_

#include <chrono>
#include <cstdint>

#include "common/faults/fault_point.h"

namespace coxswain {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;   // monotonic
  virtual int64_t UnixMs() const = 0;  // wall clock, milliseconds since 1970
};

class SystemClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  int64_t UnixMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
               .count() +
           fault::WallClockJumpMs();
  }
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_RUNTIME_CLOCK_H_
