#include "common/hub/upload/push_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/api/repository_listing.h"
#include "common/hub/cache/blob_digest.h"
#include "common/outside_text.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSampleBytes = 512;
constexpr size_t kReadAtOnce = 1 << 20;

int64_t ModifiedNs(const struct stat& found) {
  return int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

absl::Status NoFile(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(OneLine(path, kMostNameBytes),
                   " is a link or no regular file: push a folder that holds the files themselves"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) {
      entry.disable_recursion_pending();
      continue;
    }
    const fs::file_status status = entry->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) return NoFile(entry->path().string());
    paths.push_back(entry->path().lexically_relative(folder).generic_string());
    if (!CheckPath(paths.back()).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          OneLine(entry->path().string(), kMostNameBytes), " has a name that the Hub refuses"));
    }
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<PushFile> PushFile::OnDisk(const std::string& folder, const std::string& path) {
  PushFile file;
  file.path_ = path;
  file.on_disk_ = absl::StrCat(folder, "/", path);
  struct stat found {};
  if (lstat(file.on_disk_.c_str(), &found) != 0) return ErrnoStatus(errno, "read", file.on_disk_);
  if (!S_ISREG(found.st_mode)) return NoFile(file.on_disk_);
  file.bytes_ = found.st_size;
  file.modified_ns_ = ModifiedNs(found);
  file.inode_ = found.st_ino;
  return file;
}

PushFile PushFile::OfText(std::string path, std::string text) {
  PushFile file;
  file.path_ = std::move(path);
  file.bytes_ = static_cast<int64_t>(text.size());
  file.text_ = std::move(text);
  return file;
}

absl::StatusOr<std::string> PushFile::Sample() {
  std::string sample(std::min(kSampleBytes, static_cast<size_t>(bytes_)), '\0');
  if (sample.empty()) return sample;
  ASSIGN_OR_RETURN(const size_t read, ReadAt(0, sample.data(), sample.size()));
  sample.resize(read);
  Close();
  return sample;
}

absl::StatusOr<std::string> PushFile::Content() {
  std::string content(static_cast<size_t>(bytes_), '\0');
  for (size_t at = 0; at < content.size();) {
    ASSIGN_OR_RETURN(const size_t read,
                     ReadAt(static_cast<int64_t>(at), content.data() + at, content.size() - at));
    at += read;
  }
  Close();
  return content;
}

absl::StatusOr<std::string> PushFile::Digest(DigestKind kind,
                                             const std::function<bool()>& cancelled) {
  std::string& kept = digests_[static_cast<size_t>(kind)];
  if (!kept.empty()) return kept;
  BlobDigest digest(std::string(kind == DigestKind::kGit ? 40 : 64, '0'), bytes_);
  std::string piece(kReadAtOnce, '\0');
  for (int64_t at = 0; at < bytes_;) {
    if (cancelled && cancelled()) {
      return absl::CancelledError(absl::StrCat("reading ", on_disk_, " was cancelled"));
    }
    ASSIGN_OR_RETURN(const size_t read, ReadAt(at, piece.data(), piece.size()));
    digest.Update({piece.data(), read});
    at += static_cast<int64_t>(read);
  }
  Close();
  RETURN_IF_ERROR(CheckUnchanged());
  kept = digest.Hex();
  return kept;
}

absl::StatusOr<size_t> PushFile::ReadAt(int64_t offset, char* to, size_t most) {
  if (on_disk_.empty()) return text_.copy(to, most, static_cast<size_t>(offset));
  if (open_.get() < 0) {
    open_ = Descriptor(open(on_disk_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (open_.get() < 0) return ErrnoStatus(errno, "read", on_disk_);
  }
  const size_t wanted = std::min(most, static_cast<size_t>(bytes_ - offset));
  const ssize_t got = pread(open_.get(), to, wanted, offset);
  if (got < 0) return ErrnoStatus(errno, "read", on_disk_);
  if (got == 0) return Changed();
  return static_cast<size_t>(got);
}

absl::Status PushFile::CheckUnchanged() const {
  if (on_disk_.empty()) return absl::OkStatus();
  struct stat found {};
  if (lstat(on_disk_.c_str(), &found) != 0) return ErrnoStatus(errno, "read", on_disk_);
  const bool same =
      found.st_size == bytes_ && ModifiedNs(found) == modified_ns_ && found.st_ino == inode_;
  return same ? absl::OkStatus() : Changed();
}

absl::Status PushFile::Changed() const {
  return absl::AbortedError(absl::StrCat(
      on_disk_, " changed while it was pushed: ", "push again when nothing writes it any more"));
}

}  // namespace coxswain::hub
