// The version of this cox.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_VERSION_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_VERSION_H_

#include <string>

namespace coxswain::cli {

std::string ClientVersion();  // "cox 0.1.0 (1a2b3c4d)": release and commit

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_VERSION_H_
