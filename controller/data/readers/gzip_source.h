// The bytes of a gzip file, or of one that is not compressed.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_GZIP_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_GZIP_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/data/readers/byte_source.h"

struct gzFile_s;

namespace coxswain::data {

class GzipSource : public ByteSource {
 public:
  // NotFound, PermissionDenied.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path,
                                                          int64_t file_bytes);
  ~GzipSource() override;
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t capacity) override;
  int64_t consumed() const override;

 private:
  GzipSource(std::string path, gzFile_s* file, int64_t file_bytes)
      : ByteSource(file_bytes), path_(std::move(path)), file_(file) {}

  const std::string path_;
  gzFile_s* const file_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_GZIP_SOURCE_H_
