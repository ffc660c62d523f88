// What stands before every call of a server: who is it, and may they.
#ifndef COXSWAIN_COMMON_ACCESS_DOOR_H_
#define COXSWAIN_COMMON_ACCESS_DOOR_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/access/call_credentials.h"
#include "common/access/principal.h"

namespace coxswain::access {

// Thread-safe, as far as its functions are. A copy is the same door.
class Door {
 public:
  struct Options {
    // Anybody is an operator and may call everything, whatever the call brings along.
    bool open = false;
    std::string role_uri = kRoleUri;  // with which the role in a certificate begins
    std::function<std::vector<std::string>()> join_tokens = {};  // now; empty: there is none
    // The principal of a bearer token, or Unauthenticated with the reason. Empty: no token is
    // known here.
    std::function<absl::StatusOr<Principal>(const std::string& token)> bearer = {};
  };

  explicit Door(Options options) : options_(std::move(options)) {}

  // Who calls. A certificate that names a role decides; else the call's token or proof. The error
  // is Unauthenticated with the reason; PermissionDenied for a call of this machine that brings
  // nothing: another OS user makes it.
  absl::StatusOr<Principal> Identify(const CallCredentials& call) const;

  // Whether the method table lets `principal` call `method` ("Jobs.Submit"). Errors as Authorize.
  absl::Status Check(const Principal& principal, std::string_view method) const;

  // Both: who calls, if they may.
  absl::StatusOr<Principal> Admit(const CallCredentials& call, std::string_view method) const;

 private:
  Options options_;
};

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_DOOR_H_
