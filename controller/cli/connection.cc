#include "controller/cli/connection.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "common/status_macros.h"
#include "controller/cli/contexts.h"
#include "controller/cli/state_dir.h"

namespace coxswain::cli {
namespace {

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

// The one that is in use; without a name where none is.
absl::StatusOr<Context> ChosenContext(const ConnectionFlags& flags) {
  ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsFile()));
  const std::string name =
      FirstOf({flags.context, FromEnvironment("COXSWAIN_CONTEXT"), contexts.current});
  if (name.empty()) return Context();
  return GetContext(contexts, name);
}

// What the environment says of what the flags leave open.
ConnectionFlags Environment() {
  return {.server = FromEnvironment("COXSWAIN_SERVER"),
          .tls = {.cert = FromEnvironment("COXSWAIN_TLS_CERT"),
                  .key = FromEnvironment("COXSWAIN_TLS_KEY"),
                  .ca = FromEnvironment("COXSWAIN_TLS_CA")},
          .token_file = FromEnvironment("COXSWAIN_TOKEN_FILE"),
          .context = ""};
}

}  // namespace

absl::StatusOr<Connection> FindConnection(const ConnectionFlags& flags) {
  ASSIGN_OR_RETURN(Context context, ChosenContext(flags));
  ConnectionFlags environment = Environment();
  std::string token = FromEnvironment("COXSWAIN_TOKEN");
  const bool named = !flags.context.empty();  // before the environment
  if (named) environment.server.clear();
  const std::string server = FirstOf({flags.server, environment.server, context.server});
  if (server != context.server) context = Context();
  if (named && !context.ca.empty()) environment.tls = TlsFiles();
  if (named && !context.token_file.empty()) {
    environment.token_file.clear();
    token.clear();
  }
  Connection found;
  found.server = server.empty() ? DefaultServer() : server;
  found.tls.ca = FirstOf({flags.tls.ca, environment.tls.ca, context.ca});
  for (const TlsFiles& pair :
       {flags.tls, environment.tls, TlsFiles{context.cert, context.key, ""}}) {
    if (!found.tls.cert.empty() || !found.tls.key.empty())
      break;  // a key goes with its certificate
    found.tls.cert = pair.cert;
    found.tls.key = pair.key;
  }
  found.insecure = flags.insecure;
  found.context = context.name;
  found.token_file = flags.token_file;
  if (found.token_file.empty()) found.token = std::move(token);
  if (found.token_file.empty() && found.token.empty()) {
    found.token_file = FirstOf({environment.token_file, context.token_file});
  }
  return found;
}

}  // namespace coxswain::cli
