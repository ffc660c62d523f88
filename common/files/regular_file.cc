#include "common/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

const char* KindText(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status NotRegular(mode_t mode, const char* action, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot ", action, " ", path, ": it is ", KindText(mode), ", no file"));
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status CheckRegular(int fd, const char* action, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "inspect", path);
  return S_ISREG(info.st_mode) ? absl::OkStatus() : NotRegular(info.st_mode, action, path);
}

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  Descriptor file(::open(path.c_str(), kFlags | O_NONBLOCK));
  // Another process holds a lease on it, as a file server does: only regular files have those.
  if (file.get() < 0 && errno == EWOULDBLOCK) file = Descriptor(::open(path.c_str(), kFlags));
  struct stat info {};
  if (file.get() < 0) {
    const int error_number = errno;
    const bool no_file = error_number == ENXIO && ::stat(path.c_str(), &info) == 0;
    return no_file ? NotRegular(info.st_mode, "read", path)
                   : ErrnoStatus(error_number, "read", path);
  }
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, "inspect", path);
  if (!S_ISREG(info.st_mode)) return NotRegular(info.st_mode, "read", path);
  return RegularFile(path, std::move(file), info.st_size);
}

absl::StatusOr<int64_t> RegularFile::ReadAt(int64_t offset, int64_t count, char* out) const {
  int64_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd(), out + done, static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path_);
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace coxswain
