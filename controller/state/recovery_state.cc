#include "controller/state/recovery_state.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace coxswain::state {
namespace {

using S = RecoveryStage;
using E = RecoveryEvent;

bool IsAborting(S stage) { return stage == S::kAbort || stage == S::kKill; }

// Where a stage leads when its time is over.
std::optional<S> AfterDeadline(S stage) {
  switch (stage) {
    case S::kSuspect:
      return stage;  // the verdict is made of what is known
    case S::kDump:
      return S::kAbort;
    case S::kAbort:
      return S::kKill;
    case S::kKill:
      return S::kRespawn;
    case S::kRespawn:
      return S::kReplace;
    case S::kReplace:
      return S::kRequeue;
    case S::kNone:
    case S::kRequeue:
      break;
  }
  return std::nullopt;
}

std::optional<S> Next(S stage, E event) {
  switch (event) {
    case E::kSuspected:
      if (stage == S::kNone) return S::kSuspect;
      if (stage == S::kSuspect || stage == S::kDump) return stage;
      break;
    case E::kUnexplained:
      if (stage == S::kSuspect) return S::kDump;
      break;
    case E::kExplained:
      if (stage == S::kSuspect) return S::kAbort;
      break;
    case E::kDumped:
      if (stage == S::kDump) return S::kAbort;
      break;
    case E::kFreed:
      if (IsAborting(stage)) return S::kRespawn;
      break;
    case E::kPlaced:
      if (stage != S::kSuspect && stage != S::kDump) return S::kNone;
      break;
    case E::kStopped:
      return S::kNone;
    case E::kDeadline:
      return AfterDeadline(stage);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<RecoveryStage> Transition(RecoveryStage stage, RecoveryEvent event) {
  const std::optional<S> next = Next(stage, event);
  if (next) return *next;
  return absl::FailedPreconditionError(absl::StrCat("a recovery in stage ",
                                                    std::string(StageName(stage)), " cannot take ",
                                                    std::string(EventName(event))));
}

std::string_view StageName(RecoveryStage stage) {
  switch (stage) {
    case S::kNone:
      return "none";
    case S::kSuspect:
      return "suspect";
    case S::kDump:
      return "dump";
    case S::kAbort:
      return "abort";
    case S::kKill:
      return "kill";
    case S::kRespawn:
      return "respawn";
    case S::kReplace:
      return "replace";
    case S::kRequeue:
      return "requeue";
  }
  return "?";
}

std::string_view EventName(RecoveryEvent event) {
  switch (event) {
    case E::kSuspected:
      return "Suspected";
    case E::kUnexplained:
      return "Unexplained";
    case E::kExplained:
      return "Explained";
    case E::kDumped:
      return "Dumped";
    case E::kFreed:
      return "Freed";
    case E::kPlaced:
      return "Placed";
    case E::kStopped:
      return "Stopped";
    case E::kDeadline:
      return "Deadline";
  }
  return "?";
}

}  // namespace coxswain::state
