// Who a call comes from.
#ifndef COXSWAIN_COMMON_ACCESS_PRINCIPAL_H_
#define COXSWAIN_COMMON_ACCESS_PRINCIPAL_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::access {

enum class Role { kController, kWorker, kSupervisor, kUser, kOperator };

std::string_view RoleName(Role role);  // "controller", ...
std::optional<Role> ParseRole(std::string_view name);

struct Principal {
  Role role = Role::kUser;
  std::string name = {};  // of a user or operator; empty: one of many workers, or not told
  bool operator==(const Principal&) const = default;
};

// "user ann", or the role alone.
std::string ToText(const Principal& principal);

// 1 to 64 letters, digits, ".", "_", "@", "-".
bool IsName(std::string_view name);

// The certificate of a principal has one subject alternative name of type URI: this, then ROLE or
// ROLE/NAME. A user has a name. --role-uri sets another beginning.
inline constexpr char kRoleUri[] = "coxswain://role/";

// What is wrong with `beginning` as such a beginning; empty: nothing. It is SCHEME://...: printable
// ASCII without spaces that ends with "/".
std::string RoleUriProblem(const std::string& beginning);

// InvalidArgument names `uri`, which begins with `beginning`, and what is expected.
absl::StatusOr<Principal> PrincipalOfUri(std::string_view uri,
                                         std::string_view beginning = kRoleUri);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_PRINCIPAL_H_
