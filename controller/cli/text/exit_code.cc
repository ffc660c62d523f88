#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {

int ExitOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return kUsage;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      return kTimeout;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kFailed;
  }
}

int ExitOf(v1::JobState state) {
  if (state == v1::JOB_STATE_FAILED) return kFailed;
  if (state == v1::JOB_STATE_CANCELLED) return kCancelled;
  return kOk;
}

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace coxswain::cli
