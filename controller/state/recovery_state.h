// The order of every failure of a gang, as a pure function.
#ifndef COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_
#define COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::state {

enum class RecoveryStage {
  kNone,     // nothing is wrong, or the next gang forms
  kSuspect,  // something is wrong; its ranks report it, if they can
  kDump,     // its ranks report what they were doing, before anything ends that
  kAbort,    // its ranks are told to drop its epoch
  kKill,     // supervisors end the processes that did not
  kRespawn,  // its workers come back, also those whose processes ended
  kReplace,  // other workers replace those that did not come back
  kRequeue,  // it has given up its place and its workers
};
inline constexpr int kNumRecoveryStages = 8;

enum class RecoveryEvent {
  kSuspected,    // a rank failed, or keeps the others waiting
  kUnexplained,  // the error does not explain itself: a dump helps
  kExplained,    // the error explains itself
  kDumped,       // every rank has answered, or cannot
  kFreed,        // no rank is in the epoch any more
  kPlaced,       // the job has workers for its next gang
  kStopped,      // there is no next gang: the job ended, is paused, or drained
  kDeadline,     // the deadline of the stage has passed
};
inline constexpr int kNumRecoveryEvents = 8;

// FailedPrecondition names stage and event when the event cannot happen there. Stages are entered
// in the order of the enumeration. Some may be left out; none is entered twice.
absl::StatusOr<RecoveryStage> Transition(RecoveryStage stage, RecoveryEvent event);

std::string_view StageName(RecoveryStage stage);  // "suspect"
std::string_view EventName(RecoveryEvent event);  // "Suspected"

}  // namespace coxswain::state

#endif  // COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_
