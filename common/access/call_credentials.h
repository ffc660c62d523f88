// What a call brings along to say who makes it: read by servers, added by clients.
#ifndef COXSWAIN_COMMON_ACCESS_CALL_CREDENTIALS_H_
#define COXSWAIN_COMMON_ACCESS_CALL_CREDENTIALS_H_

#include <functional>
#include <string>
#include <vector>

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "common/access/principal.h"

namespace coxswain::access {

// The metadata entry "authorization" is one of these and a space, then the token or the proof.
inline constexpr char kAuthorization[] = "authorization";
inline constexpr char kBearer[] = "Bearer ";
inline constexpr char kJoin[] = "Join ";  // common/access/join_proof.h

struct CallCredentials {
  std::string peer = {};               // as gRPC tells it, e.g. "ipv4:127.0.0.1:40000"
  std::vector<std::string> uris = {};  // URI names of the client's certificate
  std::string authorization = {};      // empty: none
};

CallCredentials ReadCallCredentials(const grpc::ServerContextBase& call);

// Adds to a call, before it begins, what proves who makes it. Empty: nothing does.
using SignCall = std::function<void(grpc::ClientContext*)>;

// Presents `token`, unless it is empty. A call that is not on loopback is over TLS, or it is not
// made (common/net/grpc_endpoint.h).
void SignWithToken(const std::string& token, grpc::ClientContext* call);

// Proves `role` by what `secrets` returns at that moment; nothing is added where that is empty.
SignCall SignByJoinToken(Role role, std::function<std::vector<std::string>()> secrets);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_CALL_CREDENTIALS_H_
