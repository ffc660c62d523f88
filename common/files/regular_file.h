// Files that others made, opened so that nothing but a file of a disk is ever waited for.
#ifndef COXSWAIN_COMMON_FILES_REGULAR_FILE_H_
#define COXSWAIN_COMMON_FILES_REGULAR_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }  // the caller closes it

 private:
  int fd_;
};

// A regular file, open for reading. Reading takes as long as its storage does, never until somebody
// writes: what a user names may be a FIFO or a terminal.
class RegularFile {
 public:
  // InvalidArgument: it is a folder, a FIFO, a socket or a device. Else as ErrnoStatus. All name
  // `path`, through whose links it goes.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  int fd() const { return descriptor_.get(); }
  int64_t bytes() const { return bytes_; }  // when it was opened
  const std::string& path() const { return path_; }
  Descriptor TakeDescriptor() && { return std::move(descriptor_); }

  // Reads up to `count` bytes from `offset`; fewer: the file ends there. Errors as ErrnoStatus.
  absl::StatusOr<int64_t> ReadAt(int64_t offset, int64_t count, char* out) const;

 private:
  RegularFile(std::string path, Descriptor descriptor, int64_t bytes)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), bytes_(bytes) {}

  std::string path_;
  Descriptor descriptor_;
  int64_t bytes_ = 0;
};

// InvalidArgument, naming `path` and what it is: `fd` is no regular file. `action` as of
// ErrnoStatus.
absl::Status CheckRegular(int fd, const char* action, const std::string& path);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_REGULAR_FILE_H_
