// Long work asks from time to time whether it was cancelled.
#ifndef COXSWAIN_CONTROLLER_DATA_CANCELLED_H_
#define COXSWAIN_CONTROLLER_DATA_CANCELLED_H_

#include <functional>

#include "absl/status/status.h"

namespace coxswain::data {

// Callable from any thread, and cheap. Empty: never cancelled.
using Cancelled = std::function<bool()>;

inline absl::Status CheckCancelled(const Cancelled& cancelled) {
  if (!cancelled || !cancelled()) return absl::OkStatus();
  return absl::CancelledError("data preparation was cancelled");
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_CANCELLED_H_
