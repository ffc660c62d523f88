#include "common/access/call_credentials.h"

#include <chrono>
#include <utility>

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include "absl/strings/str_cat.h"
#include "common/access/join_proof.h"

namespace coxswain::access {

CallCredentials ReadCallCredentials(const grpc::ServerContextBase& call) {
  CallCredentials read{.peer = call.peer(), .uris = {}, .authorization = {}};
  const auto& metadata = call.client_metadata();
  if (const auto entry = metadata.find(kAuthorization); entry != metadata.end()) {
    read.authorization.assign(entry->second.data(), entry->second.size());
  }
  const auto context = call.auth_context();
  if (context == nullptr || !context->IsPeerAuthenticated()) return read;
  for (const grpc::string_ref& uri : context->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    read.uris.emplace_back(uri.data(), uri.size());
  }
  return read;
}

void SignWithToken(const std::string& token, grpc::ClientContext* call) {
  if (!token.empty()) call->AddMetadata(kAuthorization, absl::StrCat(kBearer, token));
}

SignCall SignByJoinToken(Role role, std::function<std::vector<std::string>()> secrets) {
  return [role, secrets = std::move(secrets)](grpc::ClientContext* call) {
    const std::vector<std::string> held = secrets();
    if (held.empty()) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    call->AddMetadata(kAuthorization, absl::StrCat(kJoin, JoinProof(held, role, seconds)));
  };
}

}  // namespace coxswain::access
