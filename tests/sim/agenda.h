// Things that will happen at given virtual times, in time order, ties by insertion.
#ifndef COXSWAIN_TESTS_SIM_AGENDA_H_
#define COXSWAIN_TESTS_SIM_AGENDA_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::sim {

class Agenda {
 public:
  explicit Agenda(const VirtualClock* clock) : clock_(clock) {}

  void After(int64_t delay_ms, std::function<void()> task) {
    tasks_.emplace(std::make_pair(clock_->NowNs() + delay_ms * 1'000'000, next_++),
                   std::move(task));
  }
  int64_t now_ms() const { return clock_->NowNs() / 1'000'000; }
  int64_t NextNs() const {
    return tasks_.empty() ? std::numeric_limits<int64_t>::max() : tasks_.begin()->first.first;
  }
  void RunDue() {
    while (!tasks_.empty() && tasks_.begin()->first.first <= clock_->NowNs()) {
      auto node = tasks_.extract(tasks_.begin());
      node.mapped()();
    }
  }

 private:
  const VirtualClock* const clock_;
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> tasks_;
  uint64_t next_ = 0;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_AGENDA_H_
