// Why preparation ends early: it was cancelled, or the token cache failed and not a dataset.
#ifndef COXSWAIN_CONTROLLER_DATA_EARLY_END_H_
#define COXSWAIN_CONTROLLER_DATA_EARLY_END_H_

#include <functional>

#include "absl/status/status.h"

namespace coxswain::data {

// Long work asks from time to time whether it was cancelled.

// Callable from any thread, and cheap. Empty: never cancelled.
using Cancelled = std::function<bool()>;

inline absl::Status CheckCancelled(const Cancelled& cancelled) {
  if (!cancelled || !cancelled()) return absl::OkStatus();
  return absl::CancelledError("data preparation was cancelled");
}

// Marks failures to write the token cache: the controller's disk causes them, not a dataset.

// `status` of a write, marked for IsOfTokenCache unless it is OK.
absl::Status OfTokenCache(absl::Status status);
bool IsOfTokenCache(const absl::Status& status);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_EARLY_END_H_
