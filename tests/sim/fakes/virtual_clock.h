// Time that only moves when the simulation moves it.
#ifndef COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_CLOCK_H_
#define COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "controller/runtime/clock.h"

namespace coxswain::sim {

class VirtualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  int64_t UnixMs() const override { return 1'700'000'000'000 + wall_ms_ + now_ns_ / 1'000'000; }
  void AdvanceTo(int64_t ns) { now_ns_ = std::max(now_ns_, ns); }
  // The wall clock is set, forwards or backwards; the monotonic one does not see it.
  void JumpWall(int64_t ms) { wall_ms_ += ms; }

 private:
  int64_t now_ns_ = 1'000'000'000;
  int64_t wall_ms_ = 0;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_VIRTUAL_CLOCK_H_
