// The one event loop on which every decision of the controller runs. Other threads only Post.
#ifndef COXSWAIN_CONTROLLER_RUNTIME_LOOP_H_
#define COXSWAIN_CONTROLLER_RUNTIME_LOOP_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "controller/runtime/clock.h"
#include "controller/runtime/lanes.h"

namespace coxswain {

// Order. Tasks run in the order posted. Timers run in the order due; timers of one time run in the
// order set. A round runs the tasks posted before it, then the timers that are due. So a deadline
// is judged after everything that had been received.
//
// Exceptions. None leaves a task or a lane. It is logged as a bug, and the next task runs.
//
// Stalls. The loop stalls when it reaches its tasks or due timers more than kStall late, because a
// task took long or the process was stopped. It hears nobody meanwhile. Code that judges the
// silence of others uses Deadline and AttentiveNs, for which a stall takes no time.
class Loop {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;

  static constexpr std::chrono::milliseconds kStall{500};

  enum class Offloading {
    kToLanes,
    kInline,  // on the loop itself, as a posted task
  };
  // Runs `work` at some time and posts `done` after it. The simulator sets one, whose work takes
  // virtual time.
  using Offloader = std::function<void(Lane lane, Task work, Task done)>;
  Loop(const Clock* clock, Offloading offloading);
  Loop(const Clock* clock, Offloader offloader);
  ~Loop();  // waits for offloaded work in progress; its results are dropped
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Post(Task task);  // any thread
  // Any thread. Posts `done` after `work`. `work` records whether it succeeded; GuardedInto
  // (common/guarded.h) does so even if it throws. Work of one lane starts in order, and may end in
  // another order.
  void Offload(Lane lane, Task work, Task done);

  // Loop thread only. So is everything below, except Stop.
  TimerId After(std::chrono::milliseconds delay, Task task);
  // As After, but every stall until then delays it by its length.
  TimerId Deadline(std::chrono::milliseconds delay, Task task);
  void CancelTimer(TimerId id);  // unknown or fired ids are ignored

  // The clock minus all stalls so far.
  int64_t AttentiveNs() const { return clock_->NowNs() - stalled_ns_; }
  int64_t stalled_ns() const { return stalled_ns_; }
  // Called after every stall with its length.
  void OnStall(std::function<void(double seconds)> observer) { on_stall_ = std::move(observer); }
  // Called after every task and timer. The simulator checks its invariants there.
  void OnTask(Task observer) { on_task_ = std::move(observer); }

  void Run();   // until Stop
  void Stop();  // any thread

  // One round without waiting. False: there was nothing to do.
  bool RunReady();
  int64_t NextTimerNs() const;  // clock time of the earliest timer, INT64_MAX when none

  const Clock& clock() const { return *clock_; }

 private:
  struct Timer {
    Task task;
    bool waits_out_stalls = false;
    int64_t stalled_ns = 0;  // when it was set to its present time
  };
  TimerId Set(int64_t due_ns, TimerId id, Timer timer);
  int64_t Attend();
  void Do(const Task& task);

  const Clock* const clock_;
  mutable Mutex mu_;
  CondVar wake_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // Loop thread only.
  std::map<std::pair<int64_t, TimerId>, Timer> timers_;
  std::map<TimerId, int64_t> timer_due_;
  TimerId next_timer_ = 1;
  int64_t attended_ns_;  // clock time until which the loop was there
  int64_t stalled_ns_ = 0;
  std::function<void(double)> on_stall_;
  Task on_task_;
  const Offloader offloader_;  // null: lanes, or inline

  std::optional<Lanes> lanes_;  // last: its threads post
};

// Guards callbacks by the life of their object. A wrapped function does nothing once its Lifetime
// is gone. Loop thread only.
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

#endif  // COXSWAIN_CONTROLLER_RUNTIME_LOOP_H_
