// A file mapped for reading that may be cut short, or whose storage may fail, while it is read.
#ifndef COXSWAIN_COMMON_FILES_MAPPED_FILE_H_
#define COXSWAIN_COMMON_FILES_MAPPED_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

// The kernel sends SIGBUS to who touches a page that the file does not have any more, or that the
// storage cannot give. In a mapping of these such a page reads as zeros, as does all behind it, and
// Intact tells of it: who has read asks that before the bytes count. Threads share it.
class MappedFile {
 public:
  // Errors as RegularFile::Open and ErrnoStatus. An empty file has no bytes.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }  // at the start of a page
  const std::string& path() const { return path_; }

  // DataLoss, naming the file: some of what was read so far may be zeros that it does not hold. A
  // call is a stat of the path.
  absl::Status Intact() const;

 private:
  class Guard;
  MappedFile(std::string path, dev_t device, ino_t inode);

  const std::string path_;
  const dev_t device_;
  const ino_t inode_;
  std::string_view bytes_;
  Guard* guard_ = nullptr;  // by which the signal handler knows the mapping; null: an empty file
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_MAPPED_FILE_H_
