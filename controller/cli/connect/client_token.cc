#include "controller/cli/connect/client_token.h"

#include "absl/strings/str_cat.h"
#include "common/access/local_secrets.h"
#include "common/access/secret_file.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain::cli {

absl::StatusOr<std::string> FindToken(const Connection& connection) {
  if (!connection.token_file.empty()) return access::ReadSecret(connection.token_file);
  if (!connection.token.empty()) return connection.token;
  ASSIGN_OR_RETURN(const SocketAddress peer, ParseSocketAddress(connection.server));
  if (IsLoopback(peer.host)) return access::FindLocalSecret(peer.port, access::kOperatorToken);
  return absl::NotFoundError(
      absl::StrCat("neither --token-file nor COXSWAIN_TOKEN nor a context "
                   "gives a token, and ",
                   connection.server, " is another machine"));
}

}  // namespace coxswain::cli
