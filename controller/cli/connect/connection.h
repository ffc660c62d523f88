// How this cox reaches a controller. Each setting comes from the first of: flag, environment,
// context, default.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CONNECTION_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CONNECTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/net/tls_credentials.h"

namespace coxswain::cli {

// The flags of one invocation. Empty: not given.
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
  std::string token;       // presented when token_file is empty; both empty: see FindToken
  bool insecure = false;
  std::string context;  // the context that gave at least one setting; empty: none did
};

// The variables are COXSWAIN_SERVER, COXSWAIN_TLS_CA, COXSWAIN_TLS_CERT, COXSWAIN_TLS_KEY,
// COXSWAIN_TOKEN (the token itself), COXSWAIN_TOKEN_FILE and, for the context, COXSWAIN_CONTEXT. A
// context that --context names comes before the environment. Certificates and token of a context
// are used for the context's own server only, not when a flag or a variable names another. The
// default server is the one of `cox up`, else 127.0.0.1:7070. Errors: those of ReadContexts, and
// NotFound for an unknown context.
absl::StatusOr<Connection> FindConnection(const ConnectionFlags& flags);

// The version of this cox.

std::string ClientVersion();  // "cox 0.1.0 (1a2b3c4d)": release and commit

// The token with which cox tells a controller who calls.

// The first of: the token in the connection's file, the connection's token, the token that a
// controller of this user on loopback left on this machine. NotFound names the searched places:
// then a certificate must tell who calls, or the controller is open. Other errors name the file.
absl::StatusOr<std::string> FindToken(const Connection& connection);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CONNECTION_H_
