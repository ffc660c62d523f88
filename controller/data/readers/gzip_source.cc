#include "controller/data/readers/gzip_source.h"

#include <zlib.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/posix_status.h"

namespace coxswain::data {
namespace {

constexpr unsigned kInflateBufferBytes = 1 << 18;

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> GzipSource::Open(const std::string& path,
                                                             int64_t file_bytes) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) return ErrnoStatus(errno == 0 ? ENOMEM : errno, "read dataset", path);
  gzbuffer(file, kInflateBufferBytes);
  return std::unique_ptr<ByteSource>(new GzipSource(path, file, file_bytes));
}

GzipSource::~GzipSource() { gzclose_r(file_); }

absl::StatusOr<size_t> GzipSource::Read(char* to, size_t capacity) {
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

int64_t GzipSource::consumed() const { return gzoffset(file_); }

}  // namespace coxswain::data
