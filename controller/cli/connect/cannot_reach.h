// The error message for a controller that cannot be reached.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CANNOT_REACH_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CANNOT_REACH_H_

#include <string>

#include "controller/cli/connect/connection.h"

namespace coxswain::cli {

// Names the address, how cox connected (plaintext or TLS), `reason` in gRPC's words, and the usual
// cause with its remedy: nothing listens there, only one side uses TLS, another CA signed the
// certificate, it is for another host name, or it was refused.
std::string CannotReach(const Connection& connection, const std::string& reason);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CANNOT_REACH_H_
