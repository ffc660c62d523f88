// What to say and to do when a controller cannot be reached.
#ifndef COXSWAIN_CONTROLLER_CLI_CANNOT_REACH_H_
#define COXSWAIN_CONTROLLER_CLI_CANNOT_REACH_H_

#include <string>

#include "controller/cli/connection.h"

namespace coxswain::cli {

// The address, how it was tried, `reason` in gRPC's words, and what that usually means here:
// nothing listens there, TLS on one side alone, another CA, another host name, a refused
// certificate.
std::string CannotReach(const Connection& connection, const std::string& reason);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CANNOT_REACH_H_
