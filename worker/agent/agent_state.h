// The life of one worker process as it sees itself, as a pure function.
#ifndef COXSWAIN_WORKER_AGENT_AGENT_STATE_H_
#define COXSWAIN_WORKER_AGENT_AGENT_STATE_H_

#include "absl/status/statusor.h"

namespace coxswain::agent {

enum class AgentState {
  kIdle,       // no epoch, and no engine at work
  kPreparing,  // the engine of an epoch is being built
  kReady,      // the engine is built; a gang of several ranks is not connected
  kConnected,  // the gang is formed
  kRunning,    // a command came
  kAborted,    // the epoch ended in a failure or an abort
};
inline constexpr int kNumAgentStates = 6;

enum class AgentEvent {
  kPrepareStarted,
  kPrepared,
  kConnected,      // also when one rank alone took commands before
  kCommandQueued,  // one rank alone needs no Connect for it
  kEpochFailed,    // Prepare, Connect or a command failed
  kEpochAborted,   // in any state: the epoch may have ended by itself meanwhile
  kEngineStopped,  // the engine came back from an abort
  kReleased,       // in any state, likewise
};
inline constexpr int kNumAgentEvents = 8;

// The state after `event`. FailedPrecondition names state and event when the event cannot happen
// there.
absl::StatusOr<AgentState> Transition(AgentState state, AgentEvent event);

const char* StateName(AgentState state);  // "IDLE" ... as in WorkerInspectResponse.state
const char* EventName(AgentEvent event);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_AGENT_STATE_H_
