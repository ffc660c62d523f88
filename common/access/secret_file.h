// A secret in a file that its user alone can read.
#ifndef COXSWAIN_COMMON_ACCESS_SECRET_FILE_H_
#define COXSWAIN_COMMON_ACCESS_SECRET_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::access {

inline constexpr size_t kLeastSecretBytes = 32;
inline constexpr int64_t kMostSecretBytes = 4096;

// 64 hexadecimal digits from the operating system's entropy.
std::string DrawSecret();

// The secret in `path`, without spaces around it. PermissionDenied: others may read or write the
// file, or it is another user's (root's is taken). InvalidArgument: it has fewer than
// kLeastSecretBytes or more than kMostSecretBytes. NotFound and others as ErrnoStatus. All name
// `path`, none holds of its content.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

// Replaces `path` by a file of mode 0600 with `secret`, whole or not at all.
absl::Status WriteSecret(const std::string& path, const std::string& secret);

// ReadSecret; draws and writes one where there is no file.
absl::StatusOr<std::string> ReadOrDrawSecret(const std::string& path);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_SECRET_FILE_H_
