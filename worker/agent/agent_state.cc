#include "worker/agent/agent_state.h"

#include "absl/strings/str_cat.h"

namespace coxswain::agent {
namespace {

bool HasEpoch(AgentState state) {
  return state != AgentState::kIdle && state != AgentState::kAborted;
}

bool HasEngine(AgentState state) { return HasEpoch(state) && state != AgentState::kPreparing; }

bool CanHappen(AgentState state, AgentEvent event) {
  switch (event) {
    case AgentEvent::kPrepareStarted:
    case AgentEvent::kEngineStopped:
      return !HasEpoch(state);
    case AgentEvent::kPrepared:
      return state == AgentState::kPreparing;
    case AgentEvent::kConnected:
      return state == AgentState::kReady || state == AgentState::kRunning;
    case AgentEvent::kCommandQueued:
      return HasEngine(state);
    case AgentEvent::kEpochFailed:
      return HasEpoch(state);
    case AgentEvent::kEpochAborted:
    case AgentEvent::kReleased:
      return true;
  }
  return false;
}

AgentState After(AgentEvent event) {
  switch (event) {
    case AgentEvent::kPrepareStarted:
      return AgentState::kPreparing;
    case AgentEvent::kPrepared:
      return AgentState::kReady;
    case AgentEvent::kConnected:
      return AgentState::kConnected;
    case AgentEvent::kCommandQueued:
      return AgentState::kRunning;
    case AgentEvent::kEpochFailed:
    case AgentEvent::kEpochAborted:
      return AgentState::kAborted;
    case AgentEvent::kEngineStopped:
    case AgentEvent::kReleased:
      break;
  }
  return AgentState::kIdle;
}

}  // namespace

absl::StatusOr<AgentState> Transition(AgentState state, AgentEvent event) {
  if (CanHappen(state, event)) return After(event);
  return absl::FailedPreconditionError(
      absl::StrCat("an agent in state ", StateName(state), " cannot take ", EventName(event)));
}

const char* StateName(AgentState state) {
  switch (state) {
    case AgentState::kIdle:
      return "IDLE";
    case AgentState::kPreparing:
      return "PREPARING";
    case AgentState::kReady:
      return "READY";
    case AgentState::kConnected:
      return "CONNECTED";
    case AgentState::kRunning:
      return "RUNNING";
    case AgentState::kAborted:
      return "ABORTED";
  }
  return "?";
}

const char* EventName(AgentEvent event) {
  switch (event) {
    case AgentEvent::kPrepareStarted:
      return "PrepareStarted";
    case AgentEvent::kPrepared:
      return "Prepared";
    case AgentEvent::kConnected:
      return "Connected";
    case AgentEvent::kCommandQueued:
      return "CommandQueued";
    case AgentEvent::kEpochFailed:
      return "EpochFailed";
    case AgentEvent::kEpochAborted:
      return "EpochAborted";
    case AgentEvent::kEngineStopped:
      return "EngineStopped";
    case AgentEvent::kReleased:
      return "Released";
  }
  return "?";
}

}  // namespace coxswain::agent
