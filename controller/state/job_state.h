// The life of a job as a pure function: no clock, no I/O, no log. See controller/LIFE_OF_A_JOB.md,
// "States".
#ifndef COXSWAIN_CONTROLLER_STATE_JOB_STATE_H_
#define COXSWAIN_CONTROLLER_STATE_JOB_STATE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::state {

// The part of a job that only Transition changes.
struct JobStatus {
  v1::JobState phase = v1::JOB_STATE_QUEUED;
  uint64_t epoch = 0;                     // +1 at every kFormingStarted
  int32_t restarts = 0;                   // +1 at every kAttemptFailed that is tried again
  int32_t restarts_since_checkpoint = 0;  // the same, 0 again at every kCheckpointAdvanced
  // Where a drain ends: PAUSED, QUEUED or CANCELLED; UNSPECIFIED outside DRAINING.
  v1::JobState drain_goal = v1::JOB_STATE_UNSPECIFIED;

  bool operator==(const JobStatus&) const = default;
};

enum class JobEvent {
  kPrepareStarted,      // data preparation begins
  kPrepared,            // recipe made
  kAdmitted,            // workers reserved
  kFormingStarted,      // the next epoch number is in use from here on
  kFormed,              // every rank prepared and connected
  kReadopted,           // the gang of the previous controller continues under this one
  kAttemptFailed,       // a rank failed; to be tried again from the last checkpoint
  kHeldUp,              // storage or machines are not there; tried again, not counted
  kCheckpointAdvanced,  // a checkpoint further than any before is committed
  kPauseRequested,      // by a user, or the requested number of steps is done
  kPreempted,           // a worker leaves in good order: drain if it trains, then queue again
  kCancelRequested,
  kDrained,  // outstanding commands are done (or were aborted)
  kResumed,
  kStepsFinished,  // last step done and final checkpoint committed
  kExported,
  kFailed,               // for good
  kControllerRestarted,  // nothing but the store survived
};
inline constexpr int kNumJobEvents = 18;

// FailedPrecondition "is <STATE>: <why, what to do>" when the event cannot happen there; the
// subject is the caller's.
absl::StatusOr<JobStatus> Transition(const JobStatus& status, JobEvent event);

bool IsTerminal(v1::JobState phase);             // SUCCEEDED, FAILED, CANCELLED
std::string_view PhaseName(v1::JobState phase);  // "RUNNING"
std::string_view EventName(JobEvent event);      // "kFormed" -> "Formed"

}  // namespace coxswain::state

#endif  // COXSWAIN_CONTROLLER_STATE_JOB_STATE_H_
