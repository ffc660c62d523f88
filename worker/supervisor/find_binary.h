// Finds the other programs of an installation.
#ifndef COXSWAIN_WORKER_SUPERVISOR_FIND_BINARY_H_
#define COXSWAIN_WORKER_SUPERVISOR_FIND_BINARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::supervisor {

// Looks beside this process's executable, then in ../libexec/coxswain, then in PATH. NotFound names
// all three.
absl::StatusOr<std::string> FindBinary(const std::string& name);

std::string FindInPath(const std::string& name);  // empty: not found

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_FIND_BINARY_H_
