// The order of every failure of a gang, as a pure function.
#ifndef COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_
#define COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::state {

enum class RecoveryStage {
  kNone,     // nothing is wrong, or the next gang forms
  kSuspect,  // something is wrong: its ranks say what, if they can
  kDump,     // its ranks tell what they were doing, before anything ends that
  kAbort,    // its ranks are told to drop its epoch
  kKill,     // processes that do not are ended by their supervisors
  kRespawn,  // its workers come back, those whose processes ended too
  kReplace,  // others take the places of those that did not
  kRequeue,  // it has given its place and its workers up
};
inline constexpr int kNumRecoveryStages = 8;

enum class RecoveryEvent {
  kSuspected,    // a rank failed, or keeps the others waiting
  kUnexplained,  // what went wrong is known but not why: a dump tells more
  kExplained,    // what went wrong says it all
  kDumped,       // every rank has told, or cannot
  kFreed,        // no rank is in the epoch any more
  kPlaced,       // the job has workers for its next gang
  kStopped,      // there is no next gang: the job ended, is paused, or drained
  kDeadline,     // the stage has taken its time
};
inline constexpr int kNumRecoveryEvents = 8;

// FailedPrecondition names stage and event when the event cannot happen there. Stages are entered
// in the order of the enumeration; some may be left out, none is gone back to.
absl::StatusOr<RecoveryStage> Transition(RecoveryStage stage, RecoveryEvent event);

std::string_view StageName(RecoveryStage stage);  // "suspect"
std::string_view EventName(RecoveryEvent event);  // "Suspected"

}  // namespace coxswain::state

#endif  // COXSWAIN_CONTROLLER_STATE_RECOVERY_STATE_H_
