// The bytes of a gzip file, or of one that is not compressed.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTES_GZIP_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTES_GZIP_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/data/readers/bytes/byte_source.h"

struct gzFile_s;

namespace coxswain::data {

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

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTES_GZIP_SOURCE_H_
