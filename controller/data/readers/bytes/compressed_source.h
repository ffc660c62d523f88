// The bytes of a file that may be compressed.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTES_COMPRESSED_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTES_COMPRESSED_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/data/readers/bytes/byte_source.h"

struct gzFile_s;

namespace coxswain::data {

// The bytes of a gzip file, or of one that is not compressed.
class GzipSource : public ByteSource {
 public:
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(RegularFile file);
  ~GzipSource() override;
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  int64_t consumed() const override;

 private:
  GzipSource(RegularFile file, gzFile_s* stream) : ByteSource(std::move(file)), stream_(stream) {}

  absl::StatusOr<size_t> Inflate(char* to, size_t capacity) override;

  gzFile_s* const stream_;
};

// The bytes of a zstd file of one or more frames.
class ZstdSource : public ByteSource {
 public:
  // Source: RFC 8878, section 3.1.1.
  static constexpr std::string_view kMagic = "\x28\xB5\x2F\xFD";

  // Frames may ask for windows of up to 128 MiB, the library's limit.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(RegularFile file);
  ~ZstdSource() override;
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  int64_t consumed() const override;

 private:
  struct Stream;
  explicit ZstdSource(RegularFile file);

  absl::StatusOr<size_t> Inflate(char* to, size_t capacity) override;
  // Reads the next compressed bytes; false at the end of the file.
  absl::StatusOr<bool> Refill();
  absl::Status Damaged(const char* what) const;

  const std::unique_ptr<Stream> stream_;
  std::string input_;
  size_t used_ = 0;             // used bytes of input_
  int64_t consumed_ = 0;        // bytes before input_
  bool between_frames_ = true;  // the input so far ends with a complete frame
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTES_COMPRESSED_SOURCE_H_
