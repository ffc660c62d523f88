// A file that appears under its name whole and on disk, or not at all.
#ifndef COXSWAIN_COMMON_FILES_DURABLE_FILE_H_
#define COXSWAIN_COMMON_FILES_DURABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

// Create, Append or WriteAt any number of times, Commit once. Destruction before Commit removes
// what was written. Errors as ErrnoStatus; they name `path`.
class DurableFile {
 public:
  // Opens a temporary file in the directory of `path`.
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // Writes `bytes` at `offset` and has the kernel begin to bring them to the disk. Several threads
  // may call it at once; not together with Append.
  absl::Status WriteAt(int64_t offset, std::string_view bytes);
  // fsync, rename to `path` (replacing a file there), fsync of the directory.
  absl::Status Commit();

 private:
  DurableFile(std::string path, std::string temporary, int fd);

  const std::string path_;
  const std::string temporary_;
  int fd_;
};

// What was made, renamed or removed in `directory` is on disk when this returns OK.
absl::Status SyncDirectory(const std::string& directory);

// Create, Append and Commit of `bytes`.
absl::Status WriteFileDurably(const std::string& path, std::string_view bytes);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_DURABLE_FILE_H_
