// The bytes of a file, inflated when it is a gzip file (by content, not by name).
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTE_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct gzFile_s;

namespace coxswain::data {

class ByteSource {
 public:
  // NotFound, PermissionDenied; InvalidArgument when `path` is not a regular file.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Reads up to `capacity` bytes; 0: the end. DataLoss: a gzip file is damaged or cut short.
  absl::StatusOr<size_t> Read(char* to, size_t capacity);

  // Bytes of the file consumed so far, and in all (compressed ones for gzip).
  int64_t consumed() const;
  int64_t file_bytes() const { return file_bytes_; }

 private:
  ByteSource(std::string path, gzFile_s* file, int64_t file_bytes)
      : path_(std::move(path)), file_(file), file_bytes_(file_bytes) {}

  const std::string path_;
  gzFile_s* const file_;
  const int64_t file_bytes_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTE_SOURCE_H_
