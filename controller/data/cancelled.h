// Long work asks now and then whether anybody still wants it.
#ifndef COXSWAIN_CONTROLLER_DATA_CANCELLED_H_
#define COXSWAIN_CONTROLLER_DATA_CANCELLED_H_

#include <functional>

#include "absl/status/status.h"

namespace coxswain::data {

// Any thread, cheap; empty: never.
using Cancelled = std::function<bool()>;

inline absl::Status CheckCancelled(const Cancelled& cancelled) {
  if (!cancelled || !cancelled()) return absl::OkStatus();
  return absl::CancelledError("data preparation was cancelled");
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_CANCELLED_H_
