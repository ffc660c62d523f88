// What one direction of a stream holds back for a while. Messages of a stream keep their order.
#ifndef COXSWAIN_TESTS_SIM_HELD_BACK_H_
#define COXSWAIN_TESTS_SIM_HELD_BACK_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "tests/sim/agenda.h"

namespace coxswain::sim {

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

#endif  // COXSWAIN_TESTS_SIM_HELD_BACK_H_
