// The recovery of a job after its gang failed. It goes through the stages in order, each with its
// deadline. It knows how long the job waits before the next try, and how long it keeps its workers.
#ifndef COXSWAIN_CONTROLLER_FAILURE_RECOVERY_H_
#define COXSWAIN_CONTROLLER_FAILURE_RECOVERY_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "controller/runtime/loop.h"
#include "controller/state/recovery_state.h"

namespace coxswain::failure {

// Deadlines of the stages.
struct StageLimits {
  std::chrono::milliseconds suspect{1000};
  std::chrono::milliseconds dump{2000};
  std::chrono::milliseconds abort{20000};
  std::chrono::milliseconds kill{10000};
  std::chrono::milliseconds respawn{30000};  // and the wait before the next try
  std::chrono::milliseconds keep{600000};    // of place and workers; what is left of it to replace
};

// Loop thread only.
class Recovery {
 public:
  struct Hooks {
    // A stage began; never kNone. `limit`: its deadline, 0: none. The caller does the work of the
    // stage and reports it.
    std::function<void(state::RecoveryStage, std::chrono::milliseconds limit)> entered;
    // The deadline of the stage has passed. The caller calls Happened. Never called for kRequeue.
    std::function<void(state::RecoveryStage)> time_over;
    std::function<void()> try_again;  // a wait is over
    std::function<void()> kept;       // the time for which workers are kept is over
  };

  Recovery(Loop* loop, StageLimits limits, Hooks hooks);

  state::RecoveryStage stage() const { return stage_; }
  // Takes an event. One that cannot happen in this stage is logged and changes nothing.
  void Happened(state::RecoveryEvent event);

  // Sets the next try to `wait` from now: loop().clock() time not_before_ns().
  void Wait(std::chrono::milliseconds wait);
  void WaitNoMore() { not_before_ns_ = 0; }
  int64_t not_before_ns() const { return not_before_ns_; }
  bool Waits() const { return loop_->clock().NowNs() < not_before_ns_; }

  // Keeps place and workers for StageLimits::keep from now on.
  void Keep();
  void KeepNoMore() { keep_until_ns_ = 0; }
  bool was_kept() const { return keep_until_ns_ != 0; }  // since it last trained, over or not
  bool Keeps() const;

 private:
  std::chrono::milliseconds LimitOf(state::RecoveryStage stage) const;

  Loop* const loop_;
  const StageLimits limits_;
  const Hooks hooks_;
  state::RecoveryStage stage_ = state::RecoveryStage::kNone;
  int64_t not_before_ns_ = 0;
  int64_t keep_until_ns_ = 0;  // of Loop::AttentiveNs; 0: a gang trained since, or none did
  Loop::TimerId stage_timer_ = 0;
  Loop::TimerId wait_timer_ = 0;
  Loop::TimerId keep_timer_ = 0;
  Lifetime lifetime_;
};

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_RECOVERY_H_
