// Things that will happen at given virtual times, in time order, ties by insertion.
#ifndef COXSWAIN_TESTS_SIM_AGENDA_H_
#define COXSWAIN_TESTS_SIM_AGENDA_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
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

// What one direction of a stream holds back for a while. Messages of a stream keep their order.
struct HeldBack : std::enable_shared_from_this<HeldBack> {
  int64_t not_before_ms = -1;
  std::deque<std::function<void()>> tasks;  // of messages that wait, oldest first

  // Whether a message that comes now has to wait.
  bool Holds(const Agenda& agenda) const {
    return !tasks.empty() || agenda.now_ms() <= not_before_ms;
  }
  int64_t Wait(const Agenda& agenda) const {
    return std::max<int64_t>(0, not_before_ms - agenda.now_ms());
  }
  // Keeps `task` behind those that wait; what is returned runs the oldest.
  std::function<void()> Push(std::function<void()> task) {
    tasks.push_back(std::move(task));
    return [self = shared_from_this()] {
      const std::function<void()> oldest = std::move(self->tasks.front());
      self->tasks.pop_front();
      oldest();
    };
  }
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_AGENDA_H_
