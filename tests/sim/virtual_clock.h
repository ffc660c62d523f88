// Time that only moves when the simulation moves it.
#ifndef COXSWAIN_TESTS_SIM_VIRTUAL_CLOCK_H_
#define COXSWAIN_TESTS_SIM_VIRTUAL_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "controller/clock.h"

namespace coxswain::sim {

class VirtualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  int64_t UnixMs() const override { return 1'700'000'000'000 + now_ns_ / 1'000'000; }
  void AdvanceTo(int64_t ns) { now_ns_ = std::max(now_ns_, ns); }

 private:
  int64_t now_ns_ = 1'000'000'000;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_VIRTUAL_CLOCK_H_
