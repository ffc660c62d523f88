// Locks of files on disk: open file description locks, which the kernel ends with their holder. NFS
// carries them to its server; where a file system knows none, HeldFile::exclusive() says so.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/regular_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/runtime/files.h"

namespace coxswain {
namespace {

// The lock file in a user's folder. Links are not followed: what one leads to is not ours to write.
absl::StatusOr<Descriptor> OpenLockFile(const std::string& path, int flags) {
  Descriptor file(open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  if (file.get() < 0 && errno == ELOOP) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open ", path,
                     ": it is a symbolic link, and a lock file is none. "
                     "Remove the link, or give another checkpoint.output_dir"));
  }
  if (file.get() < 0) return ErrnoStatus(errno, "open", path);
  RETURN_IF_ERROR(CheckRegular(file.get(), "open", path));
  return file;
}

struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool IsOpenAt(const Descriptor& file, const std::string& path) {
  struct stat held, named;
  return fstat(file.get(), &held) == 0 && lstat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

class LockedFile : public HeldFile {
 public:
  LockedFile(std::string path, Descriptor file, bool exclusive)
      : path_(std::move(path)), file_(std::move(file)), exclusive_(exclusive) {}

  bool exclusive() const override { return exclusive_; }
  absl::Status Write(const std::string& content) override {
    const auto bytes = static_cast<ssize_t>(content.size());
    if (pwrite(file_.get(), content.data(), content.size(), 0) != bytes ||
        ftruncate(file_.get(), bytes) != 0 || fsync(file_.get()) != 0) {
      return ErrnoStatus(errno, "write", path_);
    }
    return absl::OkStatus();
  }
  absl::Status Touch() override {
    if (futimens(file_.get(), nullptr) != 0) return ErrnoStatus(errno, "touch", path_);
    return absl::OkStatus();
  }
  bool InPlace() override { return IsOpenAt(file_, path_); }
  absl::Status Remove() override {
    if (InPlace() && unlink(path_.c_str()) != 0) return ErrnoStatus(errno, "remove", path_);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const Descriptor file_;
  const bool exclusive_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HeldFile>> DiskFiles::Hold(const std::string& path) {
  while (true) {
    ASSIGN_OR_RETURN(Descriptor file, OpenLockFile(path, O_RDWR | O_CREAT));
    struct flock lock = WholeFile();
    const bool locked = fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
    if (!locked && (errno == EAGAIN || errno == EACCES)) return nullptr;
    // Its holder may have removed the file between open and lock: then this is no longer it.
    if (!IsOpenAt(file, path)) continue;
    return std::make_unique<LockedFile>(path, std::move(file), locked);
  }
}

absl::StatusOr<bool> DiskFiles::IsHeld(const std::string& path) {
  struct stat there;
  if (lstat(path.c_str(), &there) != 0 && errno == ENOENT) return false;
  ASSIGN_OR_RETURN(const Descriptor file, OpenLockFile(path, O_RDONLY));
  struct flock lock = WholeFile();
  if (fcntl(file.get(), F_OFD_GETLK, &lock) != 0) return false;  // no locks here
  return lock.l_type != F_UNLCK;
}

// A file made beside it has the present time: clocks of hosts differ.
absl::StatusOr<double> DiskFiles::AgeSeconds(const std::string& path) {
  ASSIGN_OR_RETURN(const Descriptor file, OpenLockFile(path, O_RDONLY));  // NFS: asks it anew
  struct stat then, now;
  if (fstat(file.get(), &then) != 0) return ErrnoStatus(errno, "inspect", path);
  std::string name = path + ".now-XXXXXX";
  const Descriptor probe(mkostemp(name.data(), O_CLOEXEC));
  if (probe.get() < 0) return ErrnoStatus(errno, "write beside", path);
  const bool known = fstat(probe.get(), &now) == 0;
  unlink(name.c_str());
  if (!known) return ErrnoStatus(EIO, "read the time stamp beside", path);
  return static_cast<double>(now.st_mtim.tv_sec - then.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(now.st_mtim.tv_nsec - then.st_mtim.tv_nsec);
}

}  // namespace coxswain
