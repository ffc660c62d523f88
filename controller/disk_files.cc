#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"
#include "controller/files.h"

namespace coxswain {
namespace {

absl::Status Failure(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", strerror(error));
  switch (error) {
    case ENOENT: return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT: return absl::ResourceExhaustedError(message);
    case EEXIST:
    case ENOTEMPTY: return absl::AlreadyExistsError(message);
    case ENOTDIR: return absl::FailedPreconditionError(message);
    default: return absl::UnavailableError(message);
  }
}

absl::Status SyncPath(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failure("cannot be opened", path, errno);
  const int rc = fsync(fd);
  const int error = errno;
  close(fd);
  return rc == 0 ? absl::OkStatus() : Failure("cannot be synced", path, error);
}

std::string Parent(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

absl::Status WriteAndSync(int fd, const std::string& path, const std::string& content) {
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t n = write(fd, content.data() + written, content.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failure("cannot be written", path, errno);
    written += static_cast<size_t>(n);
  }
  if (fsync(fd) != 0) return Failure("cannot be synced", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status DiskFiles::MakeDirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Failure("cannot be made", path, error.value());
  return absl::OkStatus();
}

absl::Status DiskFiles::WriteDurably(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failure("cannot be created", path, errno);
  absl::Status status = WriteAndSync(fd, path, content);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = Failure("cannot be renamed into place", path, errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncPath(Parent(path));
}

absl::StatusOr<std::string> DiskFiles::Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Failure("cannot be read", path, errno);
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return Failure("cannot be read", path, EIO);
  return content;
}

absl::StatusOr<std::vector<FileEntry>> DiskFiles::List(const std::string& directory) {
  std::error_code error;
  std::vector<FileEntry> entries;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    entries.push_back({it->path().filename().string(), it->is_directory(ignored)});
  }
  if (error) return Failure("cannot be listed", directory, error.value());
  std::sort(entries.begin(), entries.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  return entries;
}

absl::StatusOr<int64_t> DiskFiles::Size(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return Failure("has no size", path, error.value());
  return static_cast<int64_t>(size);
}

absl::StatusOr<std::string> DiskFiles::Sha256Hex(const std::string& path) {
  return Sha256HexOfFile(path);
}

bool DiskFiles::Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::Status DiskFiles::RenameDirectory(const std::string& from, const std::string& to) {
  if (Exists(to)) return Failure("cannot be renamed to it", to, EEXIST);
  if (rename(from.c_str(), to.c_str()) != 0) {
    return Failure(absl::StrCat("cannot be renamed to ", to), from, errno);
  }
  RETURN_IF_ERROR(SyncPath(Parent(to)));
  return SyncPath(Parent(from));
}

absl::Status DiskFiles::RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return Failure("cannot be removed", path, error.value());
  return absl::OkStatus();
}

}  // namespace coxswain
