#include "controller/data/readers/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::data {

absl::StatusOr<int64_t> DatasetFileBytes(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "read dataset", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("dataset ", path, " is not a regular file"));
  }
  return info.st_size;
}

absl::StatusOr<std::string> FirstBytes(const std::string& path, size_t count) {
  RETURN_IF_ERROR(DatasetFileBytes(path).status());
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "read dataset", path);
  std::string bytes(count, '\0');
  const ssize_t got = pread(fd, bytes.data(), count, 0);
  const int error = errno;
  close(fd);
  if (got < 0) return ErrnoStatus(error, "read dataset", path);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

int64_t ByteSource::consumed_before(int64_t bytes_read, int64_t unused) const {
  if (bytes_read == 0) return 0;
  const double used = 1 - static_cast<double>(unused) / static_cast<double>(bytes_read);
  return static_cast<int64_t>(static_cast<double>(consumed()) * used);
}

}  // namespace coxswain::data
