#include "controller/cli/connect/connection.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/access/local_secrets.h"
#include "common/access/secret_file.h"
#include "common/identity.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"
#include "controller/cli/connect/contexts.h"
#include "controller/cli/machine/state_dir.h"

namespace coxswain::cli {
namespace {

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What one place says; empty: nothing.
struct Source {
  std::string server;
  TlsFiles tls;
  std::string token;
  std::string token_file;  // read where there is no token
};

Source OfFlags(const ConnectionFlags& flags) {
  return {.server = flags.server, .tls = flags.tls, .token = "", .token_file = flags.token_file};
}

Source OfEnvironment() {
  return {.server = FromEnvironment("COXSWAIN_SERVER"),
          .tls = {.cert = FromEnvironment("COXSWAIN_TLS_CERT"),
                  .key = FromEnvironment("COXSWAIN_TLS_KEY"),
                  .ca = FromEnvironment("COXSWAIN_TLS_CA")},
          .token = FromEnvironment("COXSWAIN_TOKEN"),
          .token_file = FromEnvironment("COXSWAIN_TOKEN_FILE")};
}

Source OfContext(const Context& context) {
  return {.server = context.server,
          .tls = {.cert = context.cert, .key = context.key, .ca = context.ca},
          .token = "",
          .token_file = context.token_file};
}

// The one that is in use; without a name where none is.
absl::StatusOr<Context> ChosenContext(const ConnectionFlags& flags) {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsFile()));
  for (const std::string& name :
       {flags.context, FromEnvironment("COXSWAIN_CONTEXT"), contexts.current}) {
    if (!name.empty()) return GetContext(contexts, name);
  }
  return Context();
}

// Takes of a source what those before it have left open. A key goes with its certificate.
void Fill(const Source& source, Connection* found) {
  if (found->server.empty()) found->server = source.server;
  if (found->tls.ca.empty()) found->tls.ca = source.tls.ca;
  if (found->tls.cert.empty() && found->tls.key.empty()) {
    found->tls.cert = source.tls.cert;
    found->tls.key = source.tls.key;
  }
  if (!found->token.empty() || !found->token_file.empty()) return;
  found->token = source.token;
  if (source.token.empty()) found->token_file = source.token_file;
}

}  // namespace

absl::StatusOr<Connection> FindConnection(const ConnectionFlags& flags) {
  ASSIGN_OR_RETURN(const Context context, ChosenContext(flags));
  const Source environment = OfEnvironment(), of_context = OfContext(context);
  const bool named = !flags.context.empty();
  std::vector<Source> sources = {OfFlags(flags), named ? of_context : environment,
                                 named ? environment : of_context};
  Connection found;
  for (const Source& source : sources) {
    if (found.server.empty()) found.server = source.server;
  }
  if (found.server == context.server) {
    found.context = context.name;
  } else {
    sources[named ? 1 : 2] = Source();  // what is the context's goes to its server alone
  }
  for (const Source& source : sources) Fill(source, &found);
  if (found.server.empty()) found.server = DefaultServer();
  found.insecure = flags.insecure;
  return found;
}

std::string ClientVersion() {
  return absl::StrCat("cox ", std::string(BuildVersion()), " (", std::string(BuildCommit()), ")");
}

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
