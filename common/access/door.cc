#include "common/access/door.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/access/join_proof.h"
#include "common/access/method_table.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::access {
namespace {

int64_t UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// "ipv4:127.0.0.1:40000", "ipv6:%5B::1%5D:40000": as gRPC writes a peer.
bool OnThisMachine(const std::string& peer) {
  return peer.starts_with("ipv4:127.") || peer.starts_with("ipv6:%5B::1%5D:") ||
         peer.starts_with("ipv6:[::1]:") || peer.starts_with("unix:");
}

absl::StatusOr<Principal> OfCertificate(const std::vector<std::string>& uris,
                                        const std::string& beginning) {
  if (uris.size() > 1) {
    return absl::UnauthenticatedError(absl::StrCat("the certificate names several roles, ",
                                                   CleanText(absl::StrJoin(uris, ", ")),
                                                   ": one is expected"));
  }
  absl::StatusOr<Principal> principal = PrincipalOfUri(uris.front(), beginning);
  if (principal.ok()) return principal;
  return absl::UnauthenticatedError(principal.status().message());
}

}  // namespace

absl::StatusOr<Principal> Door::Identify(const CallCredentials& call) const {
  if (options_.open) return Principal{.role = Role::kOperator, .name = "anyone"};
  std::vector<std::string> roles;
  std::copy_if(call.uris.begin(), call.uris.end(), std::back_inserter(roles),
               [this](const std::string& uri) { return uri.starts_with(options_.role_uri); });
  if (!roles.empty()) return OfCertificate(roles, options_.role_uri);
  const std::string& presented = call.authorization;
  if (presented.starts_with(kJoin)) {
    return CheckJoinProof(
        options_.join_tokens ? options_.join_tokens() : std::vector<std::string>(),
        presented.substr(sizeof(kJoin) - 1), UnixSeconds());
  }
  if (presented.starts_with(kBearer) && options_.bearer) {
    return options_.bearer(presented.substr(sizeof(kBearer) - 1));
  }
  if (!presented.empty()) {
    return absl::UnauthenticatedError("the authorization that came is none that is taken here");
  }
  const std::string nothing = "the call brings no token, and no certificate that names a role";
  if (!OnThisMachine(call.peer)) return absl::UnauthenticatedError(nothing);
  return absl::PermissionDeniedError(absl::StrCat(
      nothing, ": what answers here belongs to another user of this machine, or runs with another ",
      "COXSWAIN_RUNTIME_DIR. Ask its operator for a token (cox token create)"));
}

absl::Status Door::Check(const Principal& principal, std::string_view method) const {
  return options_.open ? absl::OkStatus() : Authorize(principal, method);
}

absl::StatusOr<Principal> Door::Admit(const CallCredentials& call, std::string_view method) const {
  ASSIGN_OR_RETURN(Principal principal, Identify(call));
  RETURN_IF_ERROR(Check(principal, method));
  return principal;
}

}  // namespace coxswain::access
