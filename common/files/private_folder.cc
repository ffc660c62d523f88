#include "common/files/private_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/posix_status.h"

namespace coxswain {

absl::Status MakePrivateFolder(const std::string& path) {
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!above.empty()) std::filesystem::create_directories(above, error);
  if (error) return ErrnoStatus(error.value(), "make", above.string());
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  struct stat found {};
  if (errno != EEXIST || stat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "make", path);
  return S_ISDIR(found.st_mode) ? absl::OkStatus() : ErrnoStatus(ENOTDIR, "make", path);
}

}  // namespace coxswain
