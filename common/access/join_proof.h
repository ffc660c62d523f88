// How a worker, a supervisor and their controller prove that they hold the same join token, which
// none of them sends.
#ifndef COXSWAIN_COMMON_ACCESS_JOIN_PROOF_H_
#define COXSWAIN_COMMON_ACCESS_JOIN_PROOF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/access/principal.h"

namespace coxswain::access {

// Clocks of two hosts may differ by so much.
inline constexpr int64_t kMostSkewSeconds = 600;

// "ROLE SECONDS HMAC ...": HMAC-SHA256 of role and time by each of `secrets`, in hex: one, or two
// while a secret is replaced (join_token.h).
std::string JoinProof(const std::vector<std::string>& secrets, Role role, int64_t unix_seconds);

// The principal of `proof`, made by one of `secrets`: its role, without a name. Unauthenticated
// says why there is none: another secret, a time too far from `unix_seconds`, a role that does not
// join.
absl::StatusOr<Principal> CheckJoinProof(const std::vector<std::string>& secrets,
                                         std::string_view proof, int64_t unix_seconds);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_JOIN_PROOF_H_
