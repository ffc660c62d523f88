// Who downloads a file: the locks of huggingface_hub.
#ifndef COXSWAIN_COMMON_HUB_CACHE_FILE_LOCK_H_
#define COXSWAIN_COMMON_HUB_CACHE_FILE_LOCK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/regular_file.h"

namespace coxswain::hub {

// flock(2) of a file, as Python's filelock takes it; the system releases it when its process ends.
// The file stays, for those who wait.
class FileLock {
 public:
  // Nothing: another process holds it, or another lock of this one. Makes the file (mode 0664) and
  // the folders above it. Errors as ErrnoStatus; they name `path`.
  static absl::StatusOr<std::optional<FileLock>> TryTake(const std::string& path);

 private:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_FILE_LOCK_H_
