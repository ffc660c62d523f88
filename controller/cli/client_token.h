// What cox presents to a controller to say who calls.
#ifndef COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_
#define COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/connection.h"

namespace coxswain::cli {

// The token in the connection's file; without one its token; without that what a controller of this
// user on loopback left on this machine. NotFound says where it was looked for: then a certificate
// must say who calls, or the controller is open. Other errors name the file.
absl::StatusOr<std::string> FindToken(const Connection& connection);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_
