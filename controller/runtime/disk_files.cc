#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/files/regular_file.h"
#include "common/parallel_for.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/runtime/files.h"

namespace coxswain {
namespace {

absl::Status Failure(const std::string& what, const std::string& path, int error) {
  if (error == EEXIST || error == ENOTEMPTY) {
    return absl::AlreadyExistsError(absl::StrCat("cannot ", what, " ", path, ": it exists"));
  }
  return ErrnoStatus(error, what, path);
}

PathFacts::Kind KindOf(mode_t mode) {
  if (S_ISREG(mode)) return PathFacts::Kind::kFile;
  if (S_ISDIR(mode)) return PathFacts::Kind::kDirectory;
  return S_ISLNK(mode) ? PathFacts::Kind::kLink : PathFacts::Kind::kOther;
}

absl::Status WriteInPlace(int fd, const std::string& path, int64_t offset, std::string_view content,
                          bool ends) {
  struct stat found;
  if (fstat(fd, &found) != 0) return ErrnoStatus(errno, "look at", path);
  if (found.st_size < offset) {
    return absl::DataLossError(absl::StrCat("cannot go on with ", path, ": it has ", found.st_size,
                                            " bytes of the ", offset, " that were written"));
  }
  while (!content.empty()) {
    const ssize_t written = ::pwrite(fd, content.data(), content.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write", path);
    content.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  if (ends && offset < found.st_size && ::ftruncate(fd, offset) != 0) {
    return ErrnoStatus(errno, "cut", path);
  }
  return absl::OkStatus();
}

std::string Parent(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace

absl::Status DiskFiles::MakeDirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Failure("make", path, error.value());
  return absl::OkStatus();
}

absl::Status DiskFiles::WriteDurably(const std::string& path, const std::string& content) {
  return WriteFileDurably(path, content);
}

absl::Status DiskFiles::WriteAt(const std::string& path, int64_t offset, const std::string& content,
                                bool ends) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  absl::Status status = WriteInPlace(fd, path, offset, content, ends);
  if (::close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, "write", path);
  return status;
}

absl::StatusOr<std::string> DiskFiles::Read(const std::string& path) { return ReadFile(path); }

absl::StatusOr<std::string> DiskFiles::ReadAt(const std::string& path, int64_t offset,
                                              int64_t count) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  std::string bytes(static_cast<size_t>(count), '\0');
  ASSIGN_OR_RETURN(const int64_t got, file.ReadAt(offset, count, bytes.data()));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

absl::StatusOr<std::vector<FileEntry>> DiskFiles::List(const std::string& directory) {
  std::error_code error;
  std::vector<FileEntry> entries;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    entries.push_back(
        {it->path().filename().string(), it->is_directory(ignored), it->is_symlink(ignored)});
  }
  if (error) return Failure("list", directory, error.value());
  std::sort(entries.begin(), entries.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  return entries;
}

absl::StatusOr<int64_t> DiskFiles::Size(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return Failure("read the size of", path, error.value());
  return static_cast<int64_t>(size);
}

absl::StatusOr<std::string> DiskFiles::Sha256Hex(const std::string& path) {
  return Sha256HexOfFile(path);
}

absl::Status DiskFiles::CheckBlocks(const std::string& path, const BlockDigests& expected) {
  return CheckBlocksOfFile(path, expected, {.threads = FileThreads()});
}

absl::StatusOr<BlockDigests> DiskFiles::Digests(const std::string& path) {
  return DigestsOfFile(path, FileThreads());
}

absl::StatusOr<PathFacts> DiskFiles::Look(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathFacts{};
    return Failure("look at", path, errno);
  }
  PathFacts facts{.kind = KindOf(found.st_mode)};
  if (facts.kind != PathFacts::Kind::kFile) return facts;
  facts.bytes = found.st_size;
  facts.modified_ns = found.st_mtim.tv_sec * int64_t{1'000'000'000} + found.st_mtim.tv_nsec;
  return facts;
}

bool DiskFiles::Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::StatusOr<int64_t> DiskFiles::FreeBytes(const std::string& path) {
  std::filesystem::path existing = path;
  while (!Exists(existing.string()) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  std::error_code error;
  const auto space = std::filesystem::space(existing, error);
  if (error) return Failure("read the free space of", existing.string(), error.value());
  return static_cast<int64_t>(space.available);
}

absl::Status DiskFiles::RenameDirectory(const std::string& from, const std::string& to) {
  if (Exists(to)) return Failure("rename a directory to", to, EEXIST);
  if (rename(from.c_str(), to.c_str()) != 0) {
    return Failure(absl::StrCat("rename to ", to, " from"), from, errno);
  }
  RETURN_IF_ERROR(SyncDirectory(Parent(to)));
  return SyncDirectory(Parent(from));
}

absl::Status DiskFiles::RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return Failure("remove", path, error.value());
  return absl::OkStatus();
}

absl::Status DiskFiles::RemoveIfEmpty(const std::string& path) {
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno == ENOTEMPTY || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "remove", path);
}

absl::StatusOr<std::string> DiskFiles::Identity(const std::string& path) {
  std::filesystem::path existing = path;
  std::string rest;
  struct stat found;
  while (stat(existing.c_str(), &found) != 0) {
    if ((errno != ENOENT && errno != ENOTDIR) || !existing.has_relative_path()) {
      return Failure("look at", existing.string(), errno);
    }
    if (existing.has_filename()) rest = absl::StrCat("/", existing.filename().string(), rest);
    existing = existing.parent_path();
  }
  return absl::StrCat(found.st_dev, ":", found.st_ino, rest);
}

}  // namespace coxswain
