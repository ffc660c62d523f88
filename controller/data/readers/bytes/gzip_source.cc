#include "controller/data/readers/bytes/gzip_source.h"

#include <fcntl.h>
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

absl::StatusOr<std::unique_ptr<ByteSource>> GzipSource::Open(RegularFile file) {
  Descriptor descriptor(fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  if (descriptor.get() < 0) return ErrnoStatus(errno, "read dataset", file.path());
  gzFile stream = gzdopen(descriptor.get(), "rb");
  if (stream == nullptr) return ErrnoStatus(ENOMEM, "read dataset", file.path());
  descriptor.Release();
  gzbuffer(stream, kInflateBufferBytes);
  return std::unique_ptr<ByteSource>(new GzipSource(std::move(file), stream));
}

GzipSource::~GzipSource() { gzclose_r(stream_); }

absl::StatusOr<size_t> GzipSource::Inflate(char* to, size_t capacity) {
  errno = 0;
  const int got = gzread(stream_, to, static_cast<unsigned>(capacity));
  if (got > 0) return static_cast<size_t>(got);
  int code = Z_OK;
  const char* message = gzerror(stream_, &code);
  if (code == Z_OK || code == Z_STREAM_END) return size_t{0};
  if (code == Z_ERRNO) return ErrnoStatus(errno == 0 ? EIO : errno, "read dataset", file().path());
  return absl::DataLossError(absl::StrCat("dataset ", file().path(),
                                          ": its gzip stream is damaged or cut short (", message,
                                          "); compress it again"));
}

int64_t GzipSource::consumed() const { return gzoffset(stream_); }

}  // namespace coxswain::data
