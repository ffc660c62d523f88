// The one event loop on which every decision of the controller runs. Other threads only Post.
#ifndef COXSWAIN_CONTROLLER_LOOP_H_
#define COXSWAIN_CONTROLLER_LOOP_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "controller/clock.h"

namespace coxswain {

class Loop {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;

  // `pool_threads` run offloaded work; 0 runs it on the loop itself (the simulator).
  Loop(const Clock* clock, int pool_threads);
  ~Loop();  // waits for offloaded work in progress; its results are dropped
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Post(Task task);                    // any thread; tasks run in the order posted
  void Offload(Task work, Task done);      // any thread; `done` runs on the loop after `work`
  TimerId After(std::chrono::milliseconds delay, Task task);  // loop thread
  void CancelTimer(TimerId id);            // loop thread; unknown or fired ids are ignored

  void Run();   // until Stop
  void Stop();  // any thread

  // One round without waiting: due timers, then the tasks posted so far. False: nothing to do.
  bool RunReady();
  int64_t NextTimerNs() const;  // clock time of the earliest timer, INT64_MAX when none

  const Clock& clock() const { return *clock_; }

 private:
  void PoolThread();

  const Clock* const clock_;
  mutable std::mutex mu_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopped_ = false;
  // Loop thread only.
  std::map<std::pair<int64_t, TimerId>, Task> timers_;
  std::map<TimerId, int64_t> timer_due_;
  TimerId next_timer_ = 1;

  std::mutex pool_mu_;
  std::condition_variable pool_wake_;
  std::deque<std::pair<Task, Task>> pool_work_;
  bool pool_stopped_ = false;
  std::vector<std::thread> pool_;
};

// Guards callbacks by their object's life: a wrapped function does nothing once its Lifetime is gone.
// Loop thread only.
class Lifetime {
 public:
  Lifetime() : token_(std::make_shared<int>(0)) {}

  template <typename F>
  auto Wrap(F f) const {
    return [weak = std::weak_ptr<int>(token_), f = std::move(f)](auto&&... args) mutable {
      if (weak.lock()) f(std::forward<decltype(args)>(args)...);
    };
  }
  void Reset() { token_ = std::make_shared<int>(0); }  // cuts every function wrapped so far

 private:
  std::shared_ptr<int> token_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_LOOP_H_
