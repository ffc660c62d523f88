#include "common/hub/cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr mode_t kMode = 0664;  // a group that shares a cache waits for one another

absl::StatusOr<Descriptor> OpenLock(const std::string& path) {
  Descriptor made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (made.get() >= 0) {
    (void)fchmod(made.get(), kMode);  // whatever the umask
    return made;
  }
  // Another user's may be read only; that is enough to lock it.
  Descriptor found(errno == EEXIST ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  if (found.get() < 0) return ErrnoStatus(errno, "lock", path);
  return found;
}

// Whether `path` still names this file: somebody may have cleaned up before it was locked.
bool IsStill(int fd, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

absl::StatusOr<std::optional<FileLock>> FileLock::TryTake(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "make", folder);
  while (true) {
    ASSIGN_OR_RETURN(Descriptor file, OpenLock(path));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return std::nullopt;
      return ErrnoStatus(errno, "lock", path);
    }
    if (IsStill(file.get(), path)) return FileLock(std::move(file));
  }
}

}  // namespace coxswain::hub
