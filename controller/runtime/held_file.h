#ifndef COXSWAIN_CONTROLLER_RUNTIME_HELD_FILE_H_
#define COXSWAIN_CONTROLLER_RUNTIME_HELD_FILE_H_

#include <functional>

#include "absl/status/status.h"

namespace coxswain {

// Work that may run only while its caller owns an object, such as an output directory.

// Calls its argument and returns its status, or does not call it and returns the reason. Any
// thread.
using Guard = std::function<absl::Status(const std::function<absl::Status()>&)>;

inline absl::Status Unguarded(const std::function<absl::Status()>& work) { return work(); }

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_RUNTIME_HELD_FILE_H_
