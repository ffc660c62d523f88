// The life of one worker process as the controller sees it, as a pure function.
#ifndef COXSWAIN_CONTROLLER_STATE_WORKER_STATE_H_
#define COXSWAIN_CONTROLLER_STATE_WORKER_STATE_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::state {

enum class WorkerPhase {
  kConnected,  // registered, no heartbeat yet
  kReady,      // free, heartbeats arrive
  kJoined,     // reserved for a job
  kRunning,    // executes its job's commands
  kAborting,   // told to drop its epoch; not free until it says so
  kLost,       // heartbeat stream broken or lease expired
};
inline constexpr int kNumWorkerPhases = 6;

struct WorkerStatus {
  WorkerPhase phase = WorkerPhase::kConnected;
  bool suspect = false;   // a heartbeat is late
  bool draining = false;  // it said that it will leave: never reserved again

  bool operator==(const WorkerStatus&) const = default;
};

enum class WorkerEvent {
  kRegistered,  // at start and after every reconnect
  kBeat,
  kBeatLate,      // no heartbeat for the suspect time
  kLeaseExpired,  // no heartbeat for the lost time
  kStreamReset,   // its heartbeat stream ended
  kReserved,
  kReturned,  // registered as a rank of a gang that its job awaits: reserved for that
  kStepsStarted,
  kReleased,  // its epoch ended in good order
  kAbortSent,
  kAborted,  // it dropped its epoch
  kDrainRequested,
};
inline constexpr int kNumWorkerEvents = 12;

// FailedPrecondition names phase and event when the event cannot happen there.
absl::StatusOr<WorkerStatus> Transition(const WorkerStatus& status, WorkerEvent event);

std::string_view PhaseName(WorkerPhase phase);  // "CONNECTED" ... as in WorkerInfo.state
// The name is that of the phase, or "LEFT" for a worker that said that it would leave, and is gone.
std::string_view StatusName(const WorkerStatus& status);
std::string_view EventName(WorkerEvent event);

}  // namespace coxswain::state

#endif  // COXSWAIN_CONTROLLER_STATE_WORKER_STATE_H_
