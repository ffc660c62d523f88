// A file on its way to the Hub.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FILE_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/regular_file.h"

namespace coxswain::hub {

// The hash by which the Hub compares contents: git's SHA-1, in LFS SHA-256 (repository_listing.h).
enum class DigestKind { kGit, kLfs };

// The files of `folder` and of those below it, by path, with slashes. Left out is whatever has a
// name that begins with a dot: folders of tools, locks. InvalidArgument: a link, which may lead out
// of the folder, or a path that the Hub refuses. Errors of files as ErrnoStatus.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder);

// Of a folder, or made of a text. One thread.
class PushFile {
 public:
  // InvalidArgument: no regular file, or a link. Errors of files as ErrnoStatus.
  static absl::StatusOr<PushFile> OnDisk(const std::string& folder, const std::string& path);
  static PushFile OfText(std::string path, std::string text);

  const std::string& path() const { return path_; }  // in the repository
  int64_t bytes() const { return bytes_; }

  // The first 512 bytes, by which the Hub tells text from what is none.
  absl::StatusOr<std::string> Sample();
  // All of it.
  absl::StatusOr<std::string> Content();
  // In lower-case hexadecimal; computed once. Cancelled soon after `cancelled` (may be empty) says
  // so.
  absl::StatusOr<std::string> Digest(DigestKind kind, const std::function<bool()>& cancelled);
  // At most `most` bytes from `offset`, at least one. Opens the file, if it is not open.
  absl::StatusOr<size_t> ReadAt(int64_t offset, char* to, size_t most);
  // Aborted: the file is not what OnDisk found, by size, inode or time stamp.
  absl::Status CheckUnchanged() const;
  void Close() { open_ = Descriptor(-1); }

 private:
  PushFile() = default;
  absl::Status Changed() const;

  std::string path_;
  std::string text_;     // where on_disk_ is empty
  std::string on_disk_;  // absolute or relative to the process
  int64_t bytes_ = 0;
  int64_t modified_ns_ = 0;
  uint64_t inode_ = 0;
  std::string digests_[2];  // by DigestKind; empty: not computed
  Descriptor open_{-1};
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FILE_H_
