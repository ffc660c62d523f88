// The address at which a worker of this supervisor serves, from its endpoint file
// (worker/agent/endpoint_file.h).
#ifndef COXSWAIN_WORKER_SUPERVISOR_ENDPOINT_H_
#define COXSWAIN_WORKER_SUPERVISOR_ENDPOINT_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::supervisor {

struct Endpoint {
  std::string address;  // host:port of the Worker service
  std::string incarnation;
  pid_t pid = 0;  // writer of the file; a killed process leaves its file behind
  bool registered = false;
};

// Reads the file of process `index` of the supervisor, 0-based. Unavailable names the file when
// there is none.
absl::StatusOr<Endpoint> ReadEndpoint(const std::string& state_dir, int index);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_ENDPOINT_H_
