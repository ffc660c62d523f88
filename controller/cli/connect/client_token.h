// The token with which cox tells a controller who calls.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_TOKEN_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/connect/connection.h"

namespace coxswain::cli {

// The first of: the token in the connection's file, the connection's token, the token that a
// controller of this user on loopback left on this machine. NotFound names the searched places:
// then a certificate must tell who calls, or the controller is open. Other errors name the file.
absl::StatusOr<std::string> FindToken(const Connection& connection);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_TOKEN_H_
