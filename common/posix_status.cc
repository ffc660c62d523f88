#include "common/posix_status.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

absl::StatusCode Code(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ENXIO:
    case ESTALE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return absl::StatusCode::kNotFound;
    case EIO:
    case EREMOTEIO:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::ErrnoToStatusCode(error_number);
  }
}

}  // namespace

absl::Status ErrnoStatus(int error_number, std::string_view action, const std::string& path) {
  return absl::Status(Code(error_number),
                      absl::StrCat("cannot ", std::string(action), " ", path, ": ",
                                   std::generic_category().message(error_number)));
}

}  // namespace coxswain
