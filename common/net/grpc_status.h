// absl::Status <-> grpc::Status: the codes are the same numbers, messages are clean text both ways.
#ifndef COXSWAIN_COMMON_NET_GRPC_STATUS_H_
#define COXSWAIN_COMMON_NET_GRPC_STATUS_H_

#include <string>

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "common/outside_text.h"

namespace coxswain {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      CleanText(std::string(status.message())));
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      CleanText(status.error_message()));
}

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_GRPC_STATUS_H_
