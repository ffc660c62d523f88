// What a call to a worker failed with, by name.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_CALL_ERROR_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_CALL_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "controller/transport/worker_transport.h"

namespace coxswain {

// "worker a/0 at 10.0.0.1:7080", and by which relay.
inline std::string NameOf(const WorkerTarget& worker) {
  return absl::StrCat("worker ", worker.id, " at ", worker.address,
                      worker.relay.empty() ? "" : " by relay ", worker.relay);
}

// What gRPC says by itself gets the name of who was called; an answer of the peer stays as it is.
inline absl::Status CallError(const std::string& called, const char* method,
                              const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  return absl::Status(status.code(), absl::StrCat(called, ": ", method, ": ", status.message()));
}

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_CALL_ERROR_H_
