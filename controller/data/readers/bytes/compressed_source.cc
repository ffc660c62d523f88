#include "controller/data/readers/bytes/compressed_source.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include <zlib.h>
#include <zstd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/byte_source.h"

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

namespace {

constexpr size_t kCompressedBytes = size_t{1} << 18;

}  // namespace

struct ZstdSource::Stream {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ~Stream() { ZSTD_freeDCtx(context); }
};

absl::StatusOr<std::unique_ptr<ByteSource>> ZstdSource::Open(RegularFile file) {
  return std::unique_ptr<ByteSource>(new ZstdSource(std::move(file)));
}

ZstdSource::ZstdSource(RegularFile file)
    : ByteSource(std::move(file)), stream_(std::make_unique<Stream>()) {}

ZstdSource::~ZstdSource() = default;

absl::StatusOr<size_t> ZstdSource::Inflate(char* to, size_t capacity) {
  ZSTD_outBuffer out = {to, capacity, 0};
  while (out.pos < capacity) {
    // A frame whose last input is taken may still hold output, so input may be empty here.
    ZSTD_inBuffer in = {input_.data(), input_.size(), used_};
    const size_t had = out.pos;
    const size_t wanted = ZSTD_decompressStream(stream_->context, &out, &in);
    const bool moved = in.pos > used_ || out.pos > had;
    used_ = in.pos;
    if (ZSTD_isError(wanted)) return Damaged(ZSTD_getErrorName(wanted));
    if (moved) between_frames_ = wanted == 0;
    if (moved || used_ < input_.size()) continue;
    ASSIGN_OR_RETURN(const bool more, Refill());
    if (more) continue;
    if (!between_frames_) return Damaged("the last frame has no end");
    break;
  }
  return out.pos;
}

absl::StatusOr<bool> ZstdSource::Refill() {
  consumed_ += static_cast<int64_t>(input_.size());
  input_.resize(kCompressedBytes);
  used_ = 0;
  const absl::StatusOr<int64_t> got =
      file().ReadAt(consumed_, static_cast<int64_t>(kCompressedBytes), input_.data());
  input_.resize(static_cast<size_t>(got.value_or(0)));
  RETURN_IF_ERROR(got.status());
  return *got > 0;
}

int64_t ZstdSource::consumed() const { return consumed_ + static_cast<int64_t>(used_); }

absl::Status ZstdSource::Damaged(const char* what) const {
  return absl::DataLossError(absl::StrCat("dataset ", file().path(),
                                          ": its zstd stream is damaged or cut short (", what,
                                          "); compress it again"));
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  ASSIGN_OR_RETURN(RegularFile file, OpenDataset(path));
  std::string head(ZstdSource::kMagic.size(), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, static_cast<int64_t>(head.size()), head.data()).status());
  if (head == ZstdSource::kMagic) return ZstdSource::Open(std::move(file));
  return GzipSource::Open(std::move(file));
}

}  // namespace coxswain::data
