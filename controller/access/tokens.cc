#include "controller/access/tokens.h"

#include <algorithm>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/access/secret_file.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "common/identity.h"

namespace coxswain::access {
namespace {

constexpr int kIdDigits = 12;

}  // namespace

DrawnToken DrawToken(const Principal& principal, int64_t now_unix_ms, int64_t lifetime_ms) {
  DrawnToken drawn;
  drawn.row.id = RandomHex(kIdDigits);
  drawn.token = absl::StrCat("cox_", drawn.row.id, "_", DrawSecret());
  drawn.row.user = principal.name;
  drawn.row.role = std::string(RoleName(principal.role));
  drawn.row.hash = Sha256(drawn.token);
  drawn.row.created_unix_ms = now_unix_ms;
  drawn.row.expires_unix_ms = lifetime_ms == 0 ? 0 : now_unix_ms + lifetime_ms;
  return drawn;
}

void Tokens::Put(const store::TokenRow& row) {
  MutexLock lock(mu_);
  by_hash_[row.hash] = row;
}

void Tokens::LetInLocally(const std::string& token) {
  MutexLock lock(mu_);
  local_hash_ = Sha256(token);
}

std::optional<store::TokenRow> Tokens::Find(const std::string& id) const {
  MutexLock lock(mu_);
  for (const auto& [hash, row] : by_hash_) {
    if (row.id == id) return row;
  }
  return std::nullopt;
}

std::vector<store::TokenRow> Tokens::All() const {
  std::vector<store::TokenRow> rows;
  {
    MutexLock lock(mu_);
    for (const auto& [hash, row] : by_hash_) rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(), [](const store::TokenRow& a, const store::TokenRow& b) {
    return std::tie(a.created_unix_ms, a.id) < std::tie(b.created_unix_ms, b.id);
  });
  return rows;
}

// What is compared are hashes: how long it takes tells nothing of a token.
absl::StatusOr<Principal> Tokens::Identify(const std::string& token, int64_t now_unix_ms) const {
  const std::string hash = Sha256(token);
  MutexLock lock(mu_);
  if (hash == local_hash_) return Principal{.role = Role::kOperator, .name = "local"};
  const auto known = by_hash_.find(hash);
  if (known == by_hash_.end()) {
    return absl::UnauthenticatedError("the token is not one of this controller's");
  }
  const store::TokenRow& row = known->second;
  const std::string named = absl::StrCat("token ", row.id, " of ", row.user);
  if (row.revoked_unix_ms != 0) {
    return absl::UnauthenticatedError(
        absl::StrCat(named, " was revoked at ", FormatTime(row.revoked_unix_ms)));
  }
  if (row.expires_unix_ms != 0 && now_unix_ms >= row.expires_unix_ms) {
    return absl::UnauthenticatedError(
        absl::StrCat(named, " expired at ", FormatTime(row.expires_unix_ms)));
  }
  const std::optional<Role> role = ParseRole(row.role);
  if (role) return Principal{.role = *role, .name = row.user};
  return absl::UnauthenticatedError(
      absl::StrCat(named, " has role ", row.role, ", which this release does not know"));
}

}  // namespace coxswain::access
