// Where a controller leaves its secrets for the other processes of its user on this machine, who
// know nothing of it but its port.
#ifndef COXSWAIN_COMMON_ACCESS_LOCAL_SECRETS_H_
#define COXSWAIN_COMMON_ACCESS_LOCAL_SECRETS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::access {

inline constexpr char kOperatorToken[] = "operator-token";  // lets in as operator, until it ends
inline constexpr char kJoinToken[] = "join-token";

// Folders of this user alone, by port: PORT/operator-token, PORT/join-token below
// $COXSWAIN_RUNTIME_DIR, else below /run/user/UID/coxswain where there is that of the login, else
// below /tmp/coxswain-UID. A folder that another user made, or may write to, is not taken.
//
// The secret of the controller that serves `port`, or that served it last. NotFound names where it
// was looked for; others as ReadSecret.
absl::StatusOr<std::string> FindLocalSecret(int port, const std::string& name);

// Leaves `secret` there, in the first of the folders that can be used. One that is there already is
// made as young as a new one.
absl::Status LeaveLocalSecret(int port, const std::string& name, const std::string& secret);

// Removes what was left for `port`.
void RemoveLocalSecrets(int port);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_LOCAL_SECRETS_H_
