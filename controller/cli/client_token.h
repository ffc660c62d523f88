// What cox presents to a controller to say who calls.
#ifndef COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_
#define COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::cli {

// The token in `file` (--token-file); without it COXSWAIN_TOKEN; without that what a controller of
// this user at `address` on loopback left on this machine. NotFound says where it was looked for:
// then a certificate must say who calls, or the controller is open. Other errors name the file.
absl::StatusOr<std::string> FindToken(const std::string& file, const std::string& address);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CLIENT_TOKEN_H_
