// Room for a download.
#ifndef COXSWAIN_COMMON_HUB_CACHE_FREE_SPACE_H_
#define COXSWAIN_COMMON_HUB_CACHE_FREE_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace coxswain::hub {

// Bytes that this user may still write below `folder`, or below the nearest folder above that is
// there. Nothing: its file system does not say.
std::optional<int64_t> FreeBytes(const std::string& folder);

// Bytes on the disk that the file `path` takes; 0: it is not there.
int64_t AllocatedBytes(const std::string& path);

// ResourceExhausted: `needed` bytes of `what` do not fit below `folder`; the message has both
// numbers.
absl::Status DiskFull(const std::string& folder, int64_t needed, const std::string& what);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_FREE_SPACE_H_
