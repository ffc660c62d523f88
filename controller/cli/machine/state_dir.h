// Finds the controller of `cox up` by the files that it wrote into the state directory.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_STATE_DIR_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_STATE_DIR_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain::cli {

struct Endpoint {
  std::string grpc;     // host:port
  std::string metrics;  // host:port, empty when off
  int64_t pid = 0;      // process id of the controller
};

// Reads the endpoint file, which a controller writes once it serves. Nothing: there is no such
// file. InvalidArgument: a field is missing.
absl::StatusOr<std::optional<Endpoint>> ReadEndpoint(const std::string& path);

// When `cox up` started a controller at `address` that ended without being stopped: says so, with
// its last log lines. Else empty.
std::string EndedController(const std::string& address);

// The default address to connect to: the endpoint of `cox up`, else 127.0.0.1:7070.
std::string DefaultServer();

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_STATE_DIR_H_
