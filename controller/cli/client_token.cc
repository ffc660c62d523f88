#include "controller/cli/client_token.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/access/local_secrets.h"
#include "common/access/secret_file.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain::cli {

absl::StatusOr<std::string> FindToken(const std::string& file, const std::string& address) {
  if (!file.empty()) return access::ReadSecret(file);
  const char* const given = std::getenv("COXSWAIN_TOKEN");
  if (given != nullptr && *given != '\0') return std::string(given);
  ASSIGN_OR_RETURN(const SocketAddress peer, ParseSocketAddress(address));
  if (IsLoopback(peer.host)) return access::FindLocalSecret(peer.port, access::kOperatorToken);
  return absl::NotFoundError(absl::StrCat("no --token-file and no COXSWAIN_TOKEN is given, and ",
                                          address, " is another machine"));
}

}  // namespace coxswain::cli
