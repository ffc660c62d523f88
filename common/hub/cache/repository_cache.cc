#include "common/hub/cache/repository_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/files/regular_file.h"
#include "common/identity.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRefBytes = 4096;

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? ErrnoStatus(error.value(), "make", folder) : absl::OkStatus();
}

// 0, or the errno of what failed.
int WriteNew(const std::string& path, const std::string& text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) return errno;
  const ssize_t put = write(file.get(), text.data(), text.size());
  if (put != static_cast<ssize_t>(text.size())) return put < 0 ? errno : ENOSPC;
  return fsync(file.get()) == 0 ? 0 : errno;
}

}  // namespace

bool IsFileOf(const std::string& path, int64_t bytes) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_size == bytes;
}

absl::Status WriteCacheText(const std::string& path, const std::string& text) {
  RETURN_IF_ERROR(MakeFolder(fs::path(path).parent_path().string()));
  const std::string fresh = absl::StrCat(path, ".", RandomHex(8), ".tmp");
  int error = WriteNew(fresh, text);
  if (error == 0 && std::rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(fresh.c_str());
  return ErrnoStatus(error, "write", path);
}

RepositoryCache::RepositoryCache(const std::string& root, const Repository& repository)
    : folder_(root + "/" + FolderName(repository)),
      locks_(root + "/.locks/" + FolderName(repository)) {}

std::string RepositoryCache::Blobs() const { return folder_ + "/blobs"; }
std::string RepositoryCache::Blob(const std::string& etag) const { return Blobs() + "/" + etag; }
std::string RepositoryCache::Partial(const std::string& etag) const {
  return Blob(etag) + ".coxswain.incomplete";
}
std::string RepositoryCache::Lock(const std::string& etag) const {
  return locks_ + "/" + etag + ".lock";
}
std::string RepositoryCache::Snapshot(const std::string& commit) const {
  return folder_ + "/snapshots/" + commit;
}
std::string RepositoryCache::File(const std::string& commit, const std::string& path) const {
  return Snapshot(commit) + "/" + path;
}
std::string RepositoryCache::Tree(const std::string& commit) const {
  return folder_ + "/trees/" + commit + ".json";
}
std::string RepositoryCache::Listing(const std::string& commit) const {
  return folder_ + "/coxswain/" + commit + ".json";
}
std::string RepositoryCache::Ref(const std::string& revision) const {
  return folder_ + "/refs/" + revision;
}

std::optional<std::string> RepositoryCache::CommitOf(const std::string& revision) const {
  if (IsCommit(revision)) return revision;
  absl::StatusOr<std::string> text = ReadFile(Ref(revision), kMostRefBytes);
  if (!text.ok()) return std::nullopt;
  absl::StripAsciiWhitespace(&*text);
  return IsCommit(*text) ? std::optional(*text) : std::nullopt;
}

bool RepositoryCache::HasFile(const std::string& commit, const HubFile& file) const {
  return IsFileOf(File(commit, file.path), file.bytes);
}

bool RepositoryCache::HasBlob(const HubFile& file) const {
  return IsFileOf(Blob(file.etag), file.bytes);
}

std::vector<std::string> RepositoryCache::Files(const std::string& commit) const {
  std::vector<std::string> files;
  const fs::path snapshot = Snapshot(commit);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(snapshot, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone)) continue;
    files.push_back(entry->path().lexically_relative(snapshot).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::Status RepositoryCache::MakeFolders() const { return MakeFolder(Blobs()); }

absl::Status RepositoryCache::Link(const std::string& commit, const HubFile& file) const {
  const std::string path = File(commit, file.path);
  const std::string folder = fs::path(path).parent_path().string();
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string blob = fs::path(Blob(file.etag)).lexically_relative(folder).string();
  // Elsewhere first: what lies there may be a link to nothing, or be read meanwhile.
  const std::string fresh = absl::StrCat(Blobs(), "/", RandomHex(16), ".tmp");
  if (symlink(blob.c_str(), fresh.c_str()) != 0) return ErrnoStatus(errno, "link", path);
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(fresh.c_str());
  return ErrnoStatus(error, "link", path);
}

absl::Status RepositoryCache::NoteCommit(const std::string& revision,
                                         const std::string& commit) const {
  if (CommitOf(revision) == commit) return absl::OkStatus();
  return WriteCacheText(Ref(revision), commit);
}

}  // namespace coxswain::hub
