#include "controller/data/readers/byte_source.h"

#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/posix_status.h"

namespace coxswain::data {
namespace {

constexpr unsigned kInflateBufferBytes = 1 << 18;

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "read dataset", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("dataset ", path, " is not a regular file"));
  }
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) return ErrnoStatus(errno == 0 ? ENOMEM : errno, "read dataset", path);
  gzbuffer(file, kInflateBufferBytes);
  return std::unique_ptr<ByteSource>(new ByteSource(path, file, info.st_size));
}

ByteSource::~ByteSource() { gzclose_r(file_); }

absl::StatusOr<size_t> ByteSource::Read(char* to, size_t capacity) {
  errno = 0;
  const int got = gzread(file_, to, static_cast<unsigned>(capacity));
  if (got > 0) return static_cast<size_t>(got);
  int code = Z_OK;
  const char* message = gzerror(file_, &code);
  if (code == Z_OK || code == Z_STREAM_END) return size_t{0};
  if (code == Z_ERRNO) return ErrnoStatus(errno == 0 ? EIO : errno, "read dataset", path_);
  return absl::DataLossError(absl::StrCat("dataset ", path_,
                                          ": its gzip stream is damaged or cut short (", message,
                                          "); compress it again"));
}

int64_t ByteSource::consumed() const { return gzoffset(file_); }

}  // namespace coxswain::data
