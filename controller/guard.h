// Work that may run only while its object is one's own.
#ifndef COXSWAIN_CONTROLLER_GUARD_H_
#define COXSWAIN_CONTROLLER_GUARD_H_

#include <functional>

#include "absl/status/status.h"

namespace coxswain {

// Calls its argument and returns what that does, or does not call it and says why. Any thread.
using Guard = std::function<absl::Status(const std::function<absl::Status()>&)>;

inline absl::Status Unguarded(const std::function<absl::Status()>& work) { return work(); }

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_GUARD_H_
