#include "controller/driver/artifact_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::driver {
namespace {

absl::Status FileError(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; free space there and resume"));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::InternalError(message);
}

absl::Status WriteAll(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("cannot write", path, errno);
    done += static_cast<size_t>(n);
  }
  if (::fsync(fd) != 0) return FileError("cannot fsync", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("cannot create", path, errno);
  const absl::Status written = WriteAll(fd, text, path);
  if (::close(fd) != 0 && written.ok()) return FileError("cannot close", path, errno);
  return written;
}

absl::Status FsyncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open directory", directory, errno);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : FileError("cannot fsync directory", directory, error);
}

absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::ifstream in(absl::StrCat(from, "/", name), std::ios::binary);
    if (!in) continue;
    std::ostringstream text;
    text << in.rdbuf();
    RETURN_IF_ERROR(WriteTextFile(absl::StrCat(to, "/", name), text.str()));
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
    if (error) return FileError("cannot move aside", target, error.value());
  }
  fs::rename(staging, target, error);
  if (error) return FileError("cannot rename to", target, error.value());
  RETURN_IF_ERROR(FsyncDirectory(fs::path(target).parent_path().string()));
  fs::remove_all(old, error);
  if (error) return FileError("cannot remove", old, error.value());
  return absl::OkStatus();
}

}  // namespace coxswain::driver
