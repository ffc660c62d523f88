// How this cox reaches a controller: each setting from a flag, the environment, a context or the
// default, in this order.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECTION_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/net/tls_credentials.h"

namespace coxswain::cli {

// What the flags of an invocation say; empty: nothing.
struct ConnectionFlags {
  std::string server;      // --server
  TlsFiles tls;            // --tls-ca, --tls-cert, --tls-key
  std::string token_file;  // --token-file
  std::string context;     // --context
  bool insecure = false;   // plaintext to loopback although certificates are given
};

struct Connection {
  std::string server;  // host:port
  TlsFiles tls;
  std::string token_file;  // read at each call
  std::string token;       // what to present where there is no token_file; empty: see FindToken
  bool insecure = false;
  std::string context;  // the context that gave a setting; empty: none did
};

// The variables are COXSWAIN_SERVER, COXSWAIN_TLS_CA, COXSWAIN_TLS_CERT, COXSWAIN_TLS_KEY,
// COXSWAIN_TOKEN (the token itself), COXSWAIN_TOKEN_FILE and, for the context, COXSWAIN_CONTEXT. A
// context that --context names stands before the environment. Certificates and token of a context
// go to its own server alone: where a flag or a variable names another, they are left out. The
// server is by default that of `cox up`, else 127.0.0.1:7070. Errors: of the contexts' file, or
// NotFound for a context that is not in it.
absl::StatusOr<Connection> FindConnection(const ConnectionFlags& flags);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECTION_H_
