#include "common/files/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/faults/fault_point.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open directory", directory);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  if (result != 0) return ErrnoStatus(error_number, "sync directory", directory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(const std::string& path) {
  std::string temporary = path + ".tmp-XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "write", path);
  std::unique_ptr<DurableFile> file(new DurableFile(path, temporary, fd));
  if (::fchmod(fd, 0644) != 0) return ErrnoStatus(errno, "write", path);
  return file;
}

DurableFile::DurableFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

absl::Status DurableFile::Append(std::string_view bytes) {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kFileWrite));
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status DurableFile::WriteAt(int64_t offset, std::string_view bytes) {
  const int64_t begin = offset;
  const auto count = static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  // Only so that Commit has less to wait for: what fails, it reports.
  (void)::sync_file_range(fd_, begin, count, SYNC_FILE_RANGE_WRITE);
  return absl::OkStatus();
}

absl::Status DurableFile::Commit() {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kFileSync));
  if (::fsync(fd_) != 0) return ErrnoStatus(errno, "sync", path_);
  RETURN_IF_ERROR(fault::Reach(fault::Point::kFileRename));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename a temporary file to", path_);
  }
  ::close(fd_);
  fd_ = -1;
  RETURN_IF_ERROR(fault::Reach(fault::Point::kFileRenamed));
  return SyncDirectory(DirectoryOf(path_));
}

absl::Status WriteFileDurably(const std::string& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

}  // namespace coxswain
