#include "controller/state/job_state.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace coxswain::state {
namespace {

// Why `event` cannot happen, and what to do, in a user's words.
std::string WhyNot(const JobStatus& status, JobEvent event) {
  if (event == JobEvent::kResumed) {
    return IsTerminal(status.phase) ? "it has ended; submit it again"
                                    : "only a PAUSED job can be resumed";
  }
  if (event == JobEvent::kPauseRequested || event == JobEvent::kCancelRequested) {
    const char* verb = event == JobEvent::kPauseRequested ? "pause" : "cancel";
    if (IsTerminal(status.phase)) {
      return absl::StrCat("it has ended; there is nothing to ", verb);
    }
    return absl::StrCat("there is no step left to ", verb,
                        status.phase == v1::JOB_STATE_DRAINING ? ", it is being cancelled" : "");
  }
  return absl::StrCat(std::string(EventName(event)), " cannot happen there");
}

// The subject, "job <id>", is the caller's.
absl::Status Refuse(const JobStatus& status, JobEvent event) {
  return absl::FailedPreconditionError(
      absl::StrCat("is ", std::string(PhaseName(status.phase)), ": ", WhyNot(status, event)));
}

JobStatus To(JobStatus status, v1::JobState phase) {
  status.phase = phase;
  status.drain_goal = v1::JOB_STATE_UNSPECIFIED;
  return status;
}

JobStatus Drain(JobStatus status, v1::JobState goal) {
  status.phase = v1::JOB_STATE_DRAINING;
  status.drain_goal = goal;
  return status;
}

JobStatus Retry(JobStatus status) {
  status = To(status, v1::JOB_STATE_RECOVERING);
  ++status.restarts;
  ++status.restarts_since_checkpoint;
  return status;
}

absl::StatusOr<JobStatus> Pause(const JobStatus& status) {
  switch (status.phase) {
    case v1::JOB_STATE_QUEUED:
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_FORMING:
    case v1::JOB_STATE_RECOVERING:
    case v1::JOB_STATE_PAUSED:
      return To(status, v1::JOB_STATE_PAUSED);
    case v1::JOB_STATE_RUNNING:
      return Drain(status, v1::JOB_STATE_PAUSED);
    case v1::JOB_STATE_DRAINING:
      if (status.drain_goal == v1::JOB_STATE_CANCELLED) break;
      return Drain(status, v1::JOB_STATE_PAUSED);
    default:
      break;
  }
  return Refuse(status, JobEvent::kPauseRequested);
}

absl::StatusOr<JobStatus> Cancel(const JobStatus& status) {
  if (status.phase == v1::JOB_STATE_RUNNING || status.phase == v1::JOB_STATE_DRAINING) {
    return Drain(status, v1::JOB_STATE_CANCELLED);
  }
  return To(status, v1::JOB_STATE_CANCELLED);
}

// What is only in memory (recipe, gang) is gone: everything that needs it starts again at QUEUED.
JobStatus Restart(const JobStatus& status) {
  switch (status.phase) {
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_FORMING:
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_RECOVERING:
      return To(status, v1::JOB_STATE_QUEUED);
    case v1::JOB_STATE_DRAINING:
      return To(status, status.drain_goal);
    default:
      return status;
  }
}

absl::StatusOr<JobStatus> Step(const JobStatus& status, JobEvent event) {
  const v1::JobState phase = status.phase;
  switch (event) {
    case JobEvent::kPrepareStarted:
      if (phase == v1::JOB_STATE_QUEUED || phase == v1::JOB_STATE_RECOVERING) {
        return To(status, v1::JOB_STATE_PREPARING);
      }
      break;
    case JobEvent::kPrepared:
      if (phase == v1::JOB_STATE_PREPARING) return To(status, v1::JOB_STATE_READY);
      break;
    case JobEvent::kAdmitted:
      if (phase == v1::JOB_STATE_READY || phase == v1::JOB_STATE_RECOVERING) {
        return To(status, v1::JOB_STATE_ADMITTED);
      }
      break;
    case JobEvent::kFormingStarted:
      if (phase == v1::JOB_STATE_ADMITTED) {
        JobStatus next = To(status, v1::JOB_STATE_FORMING);
        ++next.epoch;
        return next;
      }
      break;
    case JobEvent::kFormed:
      if (phase == v1::JOB_STATE_FORMING) return To(status, v1::JOB_STATE_RUNNING);
      break;
    case JobEvent::kReadopted:
      if (phase == v1::JOB_STATE_ADMITTED) return To(status, v1::JOB_STATE_RUNNING);
      break;
    case JobEvent::kAttemptFailed:
      if (phase == v1::JOB_STATE_DRAINING) return To(status, status.drain_goal);
      if (phase == v1::JOB_STATE_ADMITTED || phase == v1::JOB_STATE_FORMING ||
          phase == v1::JOB_STATE_RUNNING) {
        return Retry(status);
      }
      break;
    case JobEvent::kHeldUp:
      if (phase == v1::JOB_STATE_DRAINING) return To(status, status.drain_goal);
      if (phase == v1::JOB_STATE_PREPARING || phase == v1::JOB_STATE_ADMITTED ||
          phase == v1::JOB_STATE_FORMING || phase == v1::JOB_STATE_RUNNING) {
        return To(status, v1::JOB_STATE_RECOVERING);
      }
      break;
    case JobEvent::kCheckpointAdvanced:
      if (phase == v1::JOB_STATE_RUNNING || phase == v1::JOB_STATE_DRAINING) {
        JobStatus next = status;
        next.restarts_since_checkpoint = 0;
        return next;
      }
      break;
    case JobEvent::kPreempted:
      if (phase == v1::JOB_STATE_RUNNING) return Drain(status, v1::JOB_STATE_QUEUED);
      if (phase == v1::JOB_STATE_ADMITTED || phase == v1::JOB_STATE_FORMING) {
        return To(status, v1::JOB_STATE_QUEUED);
      }
      break;
    case JobEvent::kDrained:
      if (phase == v1::JOB_STATE_DRAINING) return To(status, status.drain_goal);
      break;
    case JobEvent::kResumed:
      if (phase == v1::JOB_STATE_PAUSED) return To(status, v1::JOB_STATE_QUEUED);
      break;
    case JobEvent::kStepsFinished:
      if (phase == v1::JOB_STATE_RUNNING) return To(status, v1::JOB_STATE_EXPORTING);
      break;
    case JobEvent::kExported:
      if (phase == v1::JOB_STATE_EXPORTING) return To(status, v1::JOB_STATE_SUCCEEDED);
      break;
    case JobEvent::kFailed:
      return To(status, v1::JOB_STATE_FAILED);
    case JobEvent::kPauseRequested:
      return Pause(status);
    case JobEvent::kCancelRequested:
      return Cancel(status);
    case JobEvent::kControllerRestarted:
      return Restart(status);
  }
  return Refuse(status, event);
}

}  // namespace

absl::StatusOr<JobStatus> Transition(const JobStatus& status, JobEvent event) {
  if (IsTerminal(status.phase)) {
    if (event == JobEvent::kControllerRestarted) return status;
    return Refuse(status, event);
  }
  return Step(status, event);
}

bool IsTerminal(v1::JobState phase) {
  return phase == v1::JOB_STATE_SUCCEEDED || phase == v1::JOB_STATE_FAILED ||
         phase == v1::JOB_STATE_CANCELLED;
}

std::string_view PhaseName(v1::JobState phase) {
  std::string_view name = v1::JobState_Name(phase);
  constexpr std::string_view kPrefix = "JOB_STATE_";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return name;
}

std::string_view EventName(JobEvent event) {
  switch (event) {
    case JobEvent::kPrepareStarted:
      return "PrepareStarted";
    case JobEvent::kPrepared:
      return "Prepared";
    case JobEvent::kAdmitted:
      return "Admitted";
    case JobEvent::kFormingStarted:
      return "FormingStarted";
    case JobEvent::kFormed:
      return "Formed";
    case JobEvent::kReadopted:
      return "Readopted";
    case JobEvent::kAttemptFailed:
      return "AttemptFailed";
    case JobEvent::kHeldUp:
      return "HeldUp";
    case JobEvent::kCheckpointAdvanced:
      return "CheckpointAdvanced";
    case JobEvent::kPauseRequested:
      return "PauseRequested";
    case JobEvent::kPreempted:
      return "Preempted";
    case JobEvent::kCancelRequested:
      return "CancelRequested";
    case JobEvent::kDrained:
      return "Drained";
    case JobEvent::kResumed:
      return "Resumed";
    case JobEvent::kStepsFinished:
      return "StepsFinished";
    case JobEvent::kExported:
      return "Exported";
    case JobEvent::kFailed:
      return "Failed";
    case JobEvent::kControllerRestarted:
      return "ControllerRestarted";
  }
  return "?";
}

}  // namespace coxswain::state
