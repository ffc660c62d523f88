// Which controller a command talks to: what `cox up` wrote into the state directory.
#ifndef COXSWAIN_CONTROLLER_CLI_STATE_DIR_H_
#define COXSWAIN_CONTROLLER_CLI_STATE_DIR_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain::cli {

struct Endpoint {
  std::string grpc;     // host:port
  std::string metrics;  // host:port, empty when off
  int64_t pid = 0;      // of the controller
};

// The endpoint file that a controller writes once it serves. Nothing: no such file.
// InvalidArgument: a file without the three fields.
absl::StatusOr<std::optional<Endpoint>> ReadEndpoint(const std::string& path);

// Says so, with its last words, of a controller that `cox up` started at `address` and nobody
// stopped, but that runs no more. Empty: there is none such.
std::string EndedController(const std::string& address);

// What to connect to where nobody says: the endpoint of `cox up`, else 127.0.0.1:7070.
std::string DefaultServer();

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_STATE_DIR_H_
