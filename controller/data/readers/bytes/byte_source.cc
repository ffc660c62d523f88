#include "controller/data/readers/bytes/byte_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::data {

absl::StatusOr<int64_t> DatasetFileBytes(const std::string& path) {
  ASSIGN_OR_RETURN(const RegularFile file, OpenDataset(path));
  return file.bytes();
}

absl::StatusOr<RegularFile> OpenDataset(const std::string& path) {
  absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (file.ok()) return file;
  return absl::Status(file.status().code(),
                      absl::StrCat("dataset: ", std::string(file.status().message())));
}

absl::StatusOr<std::string> FirstBytes(const std::string& path, size_t count) {
  ASSIGN_OR_RETURN(const RegularFile file, OpenDataset(path));
  std::string bytes(count, '\0');
  ASSIGN_OR_RETURN(const int64_t got, file.ReadAt(0, static_cast<int64_t>(count), bytes.data()));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

absl::StatusOr<size_t> ByteSource::Read(char* to, size_t capacity) {
  ASSIGN_OR_RETURN(const size_t got, Inflate(to, capacity));
  given_ += static_cast<int64_t>(got);
  if (given_ > std::max(kMinInflatedBytes, file_bytes() * kMaxInflation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset ", file_.path(), " has ", file_bytes(),
                     " bytes and inflates to more than ", given_, "; a file may inflate to ",
                     kMaxInflation, " times its size. If it is the right file, decompress it"));
  }
  if (got > 0) return got;
  struct stat info;
  if (fstat(file_.fd(), &info) != 0) return ErrnoStatus(errno, "inspect dataset", file_.path());
  if (info.st_size == file_bytes()) return got;
  return absl::DataLossError(absl::StrCat("dataset ", file_.path(), " has ", info.st_size,
                                          " bytes and had ", file_bytes(),
                                          " when it was opened: it was written while it was read"));
}

int64_t ByteSource::consumed_before(int64_t bytes_read, int64_t unused) const {
  if (bytes_read == 0) return 0;
  const double used = 1 - static_cast<double>(unused) / static_cast<double>(bytes_read);
  return static_cast<int64_t>(static_cast<double>(consumed()) * used);
}

}  // namespace coxswain::data
