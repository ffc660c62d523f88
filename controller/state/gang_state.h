// The life of one gang (the ranks of one epoch) as a pure function.
#ifndef COXSWAIN_CONTROLLER_STATE_GANG_STATE_H_
#define COXSWAIN_CONTROLLER_STATE_GANG_STATE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::state {

enum class GangPhase {
  kPreparing,   // Prepare is out to every rank
  kConnecting,  // rendezvous keys are relayed
  kRunning,     // commands may be sent
  kDraining,    // no new TRAIN; outstanding commands finish
  kReleased,    // ended in good order
  kAborted,     // ended by a failure; nothing of it is resumed in place
};
inline constexpr int kNumGangPhases = 6;

struct GangStatus {
  GangPhase phase = GangPhase::kPreparing;
  int32_t world_size = 1;  // >= 1, never changes
  int32_t arrived = 0;     // ranks that reached the end of the current phase, < world_size

  bool operator==(const GangStatus&) const = default;
};

enum class GangEvent {
  kRankPrepared,   // once per rank
  kRankConnected,  // once per rank
  kReadopted,      // another controller formed it, and all ranks are as it left them
  kDrainRequested,
  kFinished,  // the last command is done on every rank
  kRankFailed,
  kAbortRequested,
};
inline constexpr int kNumGangEvents = 7;

// FailedPrecondition names phase and event when the event cannot happen there. An ended gang
// (kReleased, kAborted) takes no event but repeated ends.
absl::StatusOr<GangStatus> Transition(const GangStatus& status, GangEvent event);

bool IsEnded(GangPhase phase);
std::string_view PhaseName(GangPhase phase);
std::string_view EventName(GangEvent event);

}  // namespace coxswain::state

#endif  // COXSWAIN_CONTROLLER_STATE_GANG_STATE_H_
