#include "controller/state/gang_state.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace coxswain::state {
namespace {

GangStatus To(GangStatus status, GangPhase phase) {
  status.phase = phase;
  status.arrived = 0;
  return status;
}

// One more rank reached the end of the phase; the last one moves the gang on.
GangStatus Arrive(GangStatus status, GangPhase next) {
  ++status.arrived;
  return status.arrived == status.world_size ? To(status, next) : status;
}

}  // namespace

absl::StatusOr<GangStatus> Transition(const GangStatus& status, GangEvent event) {
  const GangPhase phase = status.phase;
  switch (event) {
    case GangEvent::kRankPrepared:
      if (phase == GangPhase::kPreparing) return Arrive(status, GangPhase::kConnecting);
      break;
    case GangEvent::kRankConnected:
      if (phase == GangPhase::kConnecting) return Arrive(status, GangPhase::kRunning);
      break;
    case GangEvent::kReadopted:
      if (phase == GangPhase::kPreparing) return To(status, GangPhase::kRunning);
      break;
    case GangEvent::kDrainRequested:
      if (phase == GangPhase::kRunning || phase == GangPhase::kDraining) {
        return To(status, GangPhase::kDraining);
      }
      break;
    case GangEvent::kFinished:
      if (phase == GangPhase::kRunning || phase == GangPhase::kDraining) {
        return To(status, GangPhase::kReleased);
      }
      break;
    case GangEvent::kRankFailed:
    case GangEvent::kAbortRequested:
      return IsEnded(phase) ? status : To(status, GangPhase::kAborted);
  }
  return absl::FailedPreconditionError(absl::StrCat("a gang in phase ",
                                                    std::string(PhaseName(phase)), " cannot take ",
                                                    std::string(EventName(event))));
}

bool IsEnded(GangPhase phase) {
  return phase == GangPhase::kReleased || phase == GangPhase::kAborted;
}

std::string_view PhaseName(GangPhase phase) {
  switch (phase) {
    case GangPhase::kPreparing:
      return "PREPARING";
    case GangPhase::kConnecting:
      return "CONNECTING";
    case GangPhase::kRunning:
      return "RUNNING";
    case GangPhase::kDraining:
      return "DRAINING";
    case GangPhase::kReleased:
      return "RELEASED";
    case GangPhase::kAborted:
      return "ABORTED";
  }
  return "?";
}

std::string_view EventName(GangEvent event) {
  switch (event) {
    case GangEvent::kRankPrepared:
      return "RankPrepared";
    case GangEvent::kRankConnected:
      return "RankConnected";
    case GangEvent::kReadopted:
      return "Readopted";
    case GangEvent::kDrainRequested:
      return "DrainRequested";
    case GangEvent::kFinished:
      return "Finished";
    case GangEvent::kRankFailed:
      return "RankFailed";
    case GangEvent::kAbortRequested:
      return "AbortRequested";
  }
  return "?";
}

}  // namespace coxswain::state
