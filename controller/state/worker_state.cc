#include "controller/state/worker_state.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace coxswain::state {
namespace {

absl::Status Refuse(const WorkerStatus& status, WorkerEvent event) {
  return absl::FailedPreconditionError(
      absl::StrCat("a worker in state ", std::string(PhaseName(status.phase)),
                   status.suspect ? " (suspect)" : "", status.draining ? " (draining)" : "",
                   " cannot take ", std::string(EventName(event))));
}

WorkerStatus To(WorkerStatus status, WorkerPhase phase) {
  status.phase = phase;
  return status;
}

WorkerStatus Suspect(WorkerStatus status, bool suspect) {
  status.suspect = suspect;
  return status;
}

// A worker that works keeps its phase: a reconnect of its heartbeat does not touch its epoch.
WorkerStatus Register(const WorkerStatus& status) {
  if (status.phase == WorkerPhase::kLost || status.phase == WorkerPhase::kReady) {
    return WorkerStatus{};
  }
  return Suspect(status, false);
}

absl::StatusOr<WorkerStatus> StepAlive(const WorkerStatus& status, WorkerEvent event) {
  const WorkerPhase phase = status.phase;
  const bool works = phase == WorkerPhase::kJoined || phase == WorkerPhase::kRunning;
  switch (event) {
    case WorkerEvent::kBeat:
      return Suspect(To(status, phase == WorkerPhase::kConnected ? WorkerPhase::kReady : phase),
                     false);
    case WorkerEvent::kBeatLate:
      return Suspect(status, true);
    case WorkerEvent::kLeaseExpired:
    case WorkerEvent::kStreamReset:
      return To(status, WorkerPhase::kLost);
    case WorkerEvent::kReserved:
      if (phase == WorkerPhase::kReady && !status.suspect && !status.draining) {
        return To(status, WorkerPhase::kJoined);
      }
      break;
    case WorkerEvent::kReturned:
      if (phase == WorkerPhase::kConnected) return To(status, WorkerPhase::kJoined);
      break;
    case WorkerEvent::kStepsStarted:
      if (phase == WorkerPhase::kJoined) return To(status, WorkerPhase::kRunning);
      break;
    case WorkerEvent::kReleased:
      if (works) return To(status, WorkerPhase::kReady);
      break;
    case WorkerEvent::kAbortSent:
      return To(status, WorkerPhase::kAborting);
    case WorkerEvent::kAborted:
      if (phase == WorkerPhase::kAborting) return To(status, WorkerPhase::kReady);
      break;
    case WorkerEvent::kDrainRequested: {
      WorkerStatus next = status;
      next.draining = true;
      return next;
    }
    case WorkerEvent::kRegistered:
      return Register(status);
  }
  return Refuse(status, event);
}

}  // namespace

absl::StatusOr<WorkerStatus> Transition(const WorkerStatus& status, WorkerEvent event) {
  if (status.phase == WorkerPhase::kLost) {
    if (event == WorkerEvent::kRegistered) return Register(status);
    return Refuse(status, event);
  }
  return StepAlive(status, event);
}

std::string_view PhaseName(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kConnected:
      return "CONNECTED";
    case WorkerPhase::kReady:
      return "READY";
    case WorkerPhase::kJoined:
      return "JOINED";
    case WorkerPhase::kRunning:
      return "RUNNING";
    case WorkerPhase::kAborting:
      return "ABORTING";
    case WorkerPhase::kLost:
      return "LOST";
  }
  return "?";
}

std::string_view StatusName(const WorkerStatus& status) {
  return status.phase == WorkerPhase::kLost && status.draining ? "LEFT" : PhaseName(status.phase);
}

std::string_view EventName(WorkerEvent event) {
  switch (event) {
    case WorkerEvent::kRegistered:
      return "Registered";
    case WorkerEvent::kBeat:
      return "Beat";
    case WorkerEvent::kBeatLate:
      return "BeatLate";
    case WorkerEvent::kLeaseExpired:
      return "LeaseExpired";
    case WorkerEvent::kStreamReset:
      return "StreamReset";
    case WorkerEvent::kReserved:
      return "Reserved";
    case WorkerEvent::kReturned:
      return "Returned";
    case WorkerEvent::kStepsStarted:
      return "StepsStarted";
    case WorkerEvent::kReleased:
      return "Released";
    case WorkerEvent::kAbortSent:
      return "AbortSent";
    case WorkerEvent::kAborted:
      return "Aborted";
    case WorkerEvent::kDrainRequested:
      return "DrainRequested";
  }
  return "?";
}

}  // namespace coxswain::state
