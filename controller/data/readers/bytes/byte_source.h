// The bytes of a file. A gzip or zstd file, recognised by content, is inflated.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTES_BYTE_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTES_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/files/regular_file.h"

namespace coxswain::data {

// A file may inflate to this many times its size, or to kMinInflatedBytes if that is more.
inline constexpr int64_t kMaxInflation = 200;
inline constexpr int64_t kMinInflatedBytes = int64_t{1} << 20;

class ByteSource {
 public:
  // NotFound, PermissionDenied; InvalidArgument when `path` is not a regular file. Defined in
  // compressed_source.cc, which knows the kinds.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path);
  virtual ~ByteSource() = default;

  // Reads up to `capacity` bytes; 0: the end. DataLoss: a compressed file is damaged or cut short,
  // or the file has another size than when it was opened. InvalidArgument, with both sizes: it
  // inflates to more than kMaxInflation allows.
  absl::StatusOr<size_t> Read(char* to, size_t capacity);

  // Bytes of the file consumed so far, and in all. They count compressed bytes.
  virtual int64_t consumed() const = 0;
  int64_t file_bytes() const { return file_.bytes(); }
  // consumed() for a reader that got `bytes_read` bytes and has not used `unused` of them. An
  // estimate for compressed files.
  int64_t consumed_before(int64_t bytes_read, int64_t unused) const;

 protected:
  explicit ByteSource(RegularFile file) : file_(std::move(file)) {}

  const RegularFile& file() const { return file_; }

 private:
  virtual absl::StatusOr<size_t> Inflate(char* to, size_t capacity) = 0;  // as Read

  const RegularFile file_;
  int64_t given_ = 0;  // bytes that Read has returned
};

// Opens a dataset file. Errors as ByteSource::Open.
absl::StatusOr<RegularFile> OpenDataset(const std::string& path);

// The size of a dataset file. Errors as ByteSource::Open.
absl::StatusOr<int64_t> DatasetFileBytes(const std::string& path);

// The first bytes of a file, not inflated, at most `count`. Errors as ByteSource::Open.
absl::StatusOr<std::string> FirstBytes(const std::string& path, size_t count);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTES_BYTE_SOURCE_H_
