// errno of a file operation as a Status.
#ifndef COXSWAIN_COMMON_POSIX_STATUS_H_
#define COXSWAIN_COMMON_POSIX_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace coxswain {

// "cannot <action> <path>: <reason>". ResourceExhausted: no space, quota or file-size limit;
// PermissionDenied: also a read-only file system; NotFound: also a path below a regular file, and a
// device, server or mount that is gone; DataLoss: the device failed; the rest as
// absl::ErrnoToStatus.
absl::Status ErrnoStatus(int error_number, std::string_view action, const std::string& path);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_POSIX_STATUS_H_
