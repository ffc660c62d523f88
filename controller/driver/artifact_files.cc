#include "controller/driver/artifact_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/durable_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::driver {
namespace {

absl::Status FsyncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open directory", directory);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : ErrnoStatus(error, "fsync directory", directory);
}

}  // namespace

absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::ifstream in(absl::StrCat(from, "/", name), std::ios::binary);
    if (!in) continue;
    std::ostringstream text;
    text << in.rdbuf();
    RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(to, "/", name), text.str()));
  }
  return absl::OkStatus();
}

absl::Status ReplaceDirectory(const std::string& staging, const std::string& target) {
  namespace fs = std::filesystem;
  RETURN_IF_ERROR(FsyncDirectory(staging));
  const std::string old = absl::StrCat(staging, ".replaced");
  std::error_code error;
  if (fs::exists(target)) {
    fs::rename(target, old, error);
    if (error) return ErrnoStatus(error.value(), "move aside", target);
  }
  fs::rename(staging, target, error);
  if (error) return ErrnoStatus(error.value(), "rename to", target);
  RETURN_IF_ERROR(FsyncDirectory(fs::path(target).parent_path().string()));
  fs::remove_all(old, error);
  if (error) return ErrnoStatus(error.value(), "remove", old);
  return absl::OkStatus();
}

}  // namespace coxswain::driver
