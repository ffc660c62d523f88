#include "common/access/join_proof.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/hash.h"

namespace coxswain::access {
namespace {

constexpr size_t kMostSecrets = 2;

std::string Mac(std::string_view secret, std::string_view role, int64_t unix_seconds) {
  const std::string text = absl::StrCat("coxswain join\n", std::string(role), "\n", unix_seconds);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
  return ToHex({reinterpret_cast<const char*>(mac), size});
}

bool Equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool Joins(Role role) {
  return role == Role::kController || role == Role::kSupervisor || role == Role::kWorker;
}

absl::Status Refused(const std::string& why) {
  return absl::UnauthenticatedError(absl::StrCat("the proof of the join token ", why));
}

}  // namespace

std::string JoinProof(const std::vector<std::string>& secrets, Role role, int64_t unix_seconds) {
  std::string proof = absl::StrCat(std::string(RoleName(role)), " ", unix_seconds);
  for (const std::string& secret : secrets) {
    absl::StrAppend(&proof, " ", Mac(secret, RoleName(role), unix_seconds));
  }
  return proof;
}

absl::StatusOr<Principal> CheckJoinProof(const std::vector<std::string>& secrets,
                                         std::string_view proof, int64_t unix_seconds) {
  if (secrets.empty()) {
    return absl::UnauthenticatedError(
        "this process has no join token to compare a proof with: give --join-token-file");
  }
  const std::vector<std::string> parts = absl::StrSplit(std::string(proof), ' ');
  int64_t made = 0;
  const std::optional<Role> role = ParseRole(parts[0]);
  const bool form = parts.size() >= 3 && parts.size() <= 2 + kMostSecrets;
  if (!form || !role || !Joins(*role) || !absl::SimpleAtoi(parts[1], &made)) {
    return Refused("has another form than ROLE SECONDS HMAC");
  }
  const bool ours = std::any_of(secrets.begin(), secrets.end(), [&](const std::string& secret) {
    const std::string mac = Mac(secret, parts[0], made);
    return std::any_of(parts.begin() + 2, parts.end(),
                       [&](const std::string& shown) { return Equal(mac, shown); });
  });
  if (!ours) {
    return Refused("was made with another token: give both sides the same --join-token-file");
  }
  if (made < unix_seconds - kMostSkewSeconds || made > unix_seconds + kMostSkewSeconds) {
    return Refused(absl::StrCat("is of second ", made, ", and it is ", unix_seconds,
                                " here: clocks may differ by ", kMostSkewSeconds, " s"));
  }
  return Principal{.role = *role, .name = {}};
}

}  // namespace coxswain::access
