// Places where a test makes a process fail: fault points.
//
//   COXSWAIN_FAULT="ckpt.after_rename:step=7:kill,shard.block:count=2:once=/tmp/hit:enospc"
//
// A fault is a point, conditions, and an action, with colons between; several have commas between.
// FAULTS.md lists the points; so does --list-faults of controller, worker and supervisor.
//
//   step=N rank=N  the point was reached for this step, on this rank: of points that know them
//   count=N        it is the Nth time, from 1, that this process met the other conditions
//   once=PATH      no process made this file yet: whoever goes on makes it, the point as content
//   kill, stop     SIGKILL or SIGSTOP to this process
//   error          of a file: the device failed (EIO); of a call: Unavailable
//   enospc         of a file: no space left on the device
//   delay=MS       the thread sleeps
//   jump=MS        clock.wall alone: the clock that is read is so far ahead from then on, or behind
//
// A process that was told of no fault pays a relaxed load of a flag and a branch at a point. With
// -DCOXSWAIN_FAULT_POINTS=OFF points are empty, and a process told of a fault does not start.
#ifndef COXSWAIN_COMMON_FAULTS_FAULT_POINT_H_
#define COXSWAIN_COMMON_FAULTS_FAULT_POINT_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/faults/fault_table.h"

namespace coxswain::fault {

// What is known where a point is reached; -1: nothing.
struct Where {
  int64_t step = -1;  // of a TRAIN its 0-based step, else finished steps
  int rank = -1;
};

// Takes the faults that `text` names for `process`; those of other processes' points are passed
// over. InvalidArgument names the fault and what is known: a point, condition, action or number
// that is not, one that the point has not. FailedPrecondition: this build has no points.
// Before other threads run; a second call replaces what the first one set.
absl::Status Arm(std::string_view text, Process process);
// The same of $COXSWAIN_FAULT; unset or empty: none.
absl::Status ArmFromEnvironment(Process process);

namespace internal {
#ifdef COXSWAIN_NO_FAULT_POINTS
struct Never {
  constexpr bool load(std::memory_order) const { return false; }
};
inline const Never armed;
#else
extern std::atomic<bool> armed;
#endif
absl::Status Meet(Point point, const Where& where);
int64_t JumpMs();
}  // namespace internal

// OK, or the failure that a fault asks for here. Any thread.
inline absl::Status Reach(Point point, const Where& where = {}) {
  if (!internal::armed.load(std::memory_order_relaxed)) [[likely]] {
    return absl::OkStatus();
  }
  return internal::Meet(point, where);
}

// The same of a point whose Failure is kNone.
inline void Pass(Point point, const Where& where = {}) {
  if (internal::armed.load(std::memory_order_relaxed)) [[unlikely]] {
    internal::Meet(point, where).IgnoreError();
  }
}

// Milliseconds by which the wall clock is ahead: what faults of clock.wall came to.
inline int64_t WallClockJumpMs() {
  if (!internal::armed.load(std::memory_order_relaxed)) [[likely]] {
    return 0;
  }
  return internal::JumpMs();
}

}  // namespace coxswain::fault

#endif  // COXSWAIN_COMMON_FAULTS_FAULT_POINT_H_
