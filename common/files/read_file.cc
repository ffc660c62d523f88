#include "common/files/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/posix_status.h"

namespace coxswain {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "read", path);
  constexpr size_t kPiece = 64 << 10;
  std::string content;
  ssize_t got = 0;
  do {
    const size_t so_far = content.size();
    content.resize(so_far + kPiece);
    do {
      got = ::read(fd, content.data() + so_far, kPiece);
    } while (got < 0 && errno == EINTR);
    content.resize(so_far + static_cast<size_t>(got > 0 ? got : 0));
  } while (got > 0);
  const int error_number = errno;
  ::close(fd);
  if (got < 0) return ErrnoStatus(error_number, "read", path);
  return content;
}

}  // namespace coxswain
