// Asks grpc.health.v1, as the probes of Kubernetes do.
#ifndef COXSWAIN_COMMON_NET_HEALTH_CHECK_H_
#define COXSWAIN_COMMON_NET_HEALTH_CHECK_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain {

// Asks in plaintext whether `service` is SERVING at host:port; "" is the process itself. Errors:
// InvalidArgument (address), NotFound (no such service there), Unavailable, DeadlineExceeded,
// Unimplemented (no health service there).
absl::StatusOr<bool> CheckHealth(const std::string& address, const std::string& service,
                                 std::chrono::milliseconds timeout);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_HEALTH_CHECK_H_
