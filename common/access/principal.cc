#include "common/access/principal.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/outside_text.h"

namespace coxswain::access {
namespace {

constexpr size_t kLongestName = 64;
constexpr std::array<std::pair<Role, std::string_view>, 5> kRoles = {
    {{Role::kController, "controller"},
     {Role::kWorker, "worker"},
     {Role::kSupervisor, "supervisor"},
     {Role::kUser, "user"},
     {Role::kOperator, "operator"}}};

}  // namespace

std::string_view RoleName(Role role) {
  const auto* const row = std::find_if(kRoles.begin(), kRoles.end(),
                                       [role](const auto& entry) { return entry.first == role; });
  return row->second;
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const auto& [role, text] : kRoles) {
    if (text == name) return role;
  }
  return std::nullopt;
}

std::string ToText(const Principal& principal) {
  const std::string_view role = RoleName(principal.role);
  if (principal.name.empty()) return std::string(role);
  return absl::StrCat(std::string(role), " ", principal.name);
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '@' || c == '-';
         });
}

std::string RoleUriProblem(const std::string& beginning) {
  const size_t scheme = beginning.find("://");
  const bool printable = std::all_of(beginning.begin(), beginning.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (printable && scheme != std::string::npos && scheme > 0 && beginning.ends_with('/') &&
      beginning.size() > scheme + 3) {
    return "";
  }
  return absl::StrCat("'", CleanText(beginning, kMostNameBytes),
                      "': the beginning of a URI that ends with '/' is expected, e.g. ", kRoleUri,
                      " or spiffe://example.org/coxswain/");
}

absl::StatusOr<Principal> PrincipalOfUri(std::string_view uri, std::string_view beginning) {
  const std::string_view rest = uri.substr(beginning.size());
  const size_t slash = rest.find('/');
  const std::optional<Role> role = ParseRole(rest.substr(0, slash));
  const std::string_view name =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  const bool named = slash != std::string_view::npos;
  if (role && (named ? IsName(name) : *role != Role::kUser)) {
    return Principal{.role = *role, .name = std::string(name)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the certificate's name ", CleanText(std::string(uri), kMostNameBytes),
      " is no principal: expected ", std::string(beginning), "ROLE or ", std::string(beginning),
      "ROLE/NAME with a role of controller, worker, supervisor, user, operator; a user needs a "
      "NAME"));
}

}  // namespace coxswain::access
