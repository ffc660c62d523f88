#include "common/files/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/files/regular_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr int64_t kPiece = 64 << 10;

// From where `fd` stands to its end. A file may be longer than it was when it was opened.
absl::StatusOr<std::string> ReadToEnd(int fd, const std::string& path, int64_t bytes,
                                      int64_t max_bytes) {
  if (bytes > max_bytes) return TooManyBytes(path, bytes, max_bytes);
  std::string content;
  ssize_t got = 0;
  do {
    const auto so_far = static_cast<int64_t>(content.size());
    if (so_far > max_bytes) return TooManyBytes(path, so_far, max_bytes);
    const int64_t piece = std::max(kPiece, bytes + 1 - so_far);  // its end is seen at once
    content.resize(static_cast<size_t>(so_far + piece));
    do {
      got = ::read(fd, content.data() + so_far, static_cast<size_t>(piece));
    } while (got < 0 && errno == EINTR);
    content.resize(static_cast<size_t>(so_far + std::max<ssize_t>(got, 0)));
  } while (got > 0);
  if (got < 0) return ErrnoStatus(errno, "read", path);
  return content;
}

}  // namespace

absl::Status TooManyBytes(const std::string& path, int64_t bytes, int64_t max_bytes) {
  return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes, " bytes, at most ",
                                                 max_bytes, " are read; is it the right file?"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  return ReadToEnd(file.fd(), path, file.bytes(), max_bytes);
}

absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return ErrnoStatus(errno, "read", path);
  return ReadToEnd(file.get(), path, 0, max_bytes);
}

std::string LfsPointerText(std::string_view head) {
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/";
  constexpr std::string_view kSize = "\nsize ";
  if (!head.starts_with(kVersion)) return "";
  std::string bytes;
  if (const size_t at = head.find(kSize); at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + kSize.size());
    bytes = std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
  }
  return "is a Git LFS pointer to a file" + (bytes.empty() ? "" : " of " + bytes + " bytes") +
         ", which was not fetched: run git lfs pull in its folder";
}

}  // namespace coxswain
