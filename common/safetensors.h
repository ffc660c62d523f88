// Reads and writes the safetensors format, byte-compatible with the reference implementation.
// Source: huggingface/safetensors tensor.rs; rules in common/README.md.
#ifndef COXSWAIN_COMMON_SAFETENSORS_H_
#define COXSWAIN_COMMON_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/dtype.h"

namespace coxswain {

struct TensorInfo {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  const uint8_t* data = nullptr;  // into the mapping; not aligned: memcpy, never cast

  int64_t elements() const;
};

// A mapped file. Tensors stay valid as long as it lives. Open refuses (InvalidArgument, with path
// and tensor name): short file, oversized header, bad JSON, duplicate names, unknown dtype, shape
// that disagrees with its offsets, holes, overlaps, trailing bytes.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();

  const std::vector<TensorInfo>& tensors() const;         // offset order
  const TensorInfo* Find(const std::string& name) const;  // null: absent
  const std::map<std::string, std::string>& metadata() const;
  const std::string& path() const;

 private:
  SafetensorsFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Copies a tensor of dtype F32, BF16, F16 or F64 as float32. InvalidArgument names tensor and
// dtype.
absl::Status CopyAsFloat(const TensorInfo& tensor, float* out);
// Elements [begin, begin + count) of it.
absl::Status CopyRangeAsFloat(const TensorInfo& tensor, int64_t begin, int64_t count, float* out);

struct TensorSource {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  // Called once, in file order; must fill all bytes of the tensor.
  std::function<absl::Status(uint8_t* out)> fill;
};

struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;  // lower-case hex of the whole file
};

// Writes `path` through a temporary file in the same directory: write, fsync, rename, fsync
// directory. One tensor is in memory at a time. Metadata {"format":"pt"} unless given.
// ResourceExhausted on a full disk, PermissionDenied when not writable; both name the path, and
// nothing is left behind.
absl::StatusOr<WrittenFile> WriteSafetensors(const std::string& path,
                                             const std::vector<TensorSource>& tensors,
                                             const std::map<std::string, std::string>& metadata = {
                                                 {"format", "pt"}});

// The weights of a Hugging Face directory: model.safetensors, or model.safetensors.index.json and
// its shards. NotFound names the directory and what was looked for.
class WeightFiles {
 public:
  static absl::StatusOr<std::unique_ptr<WeightFiles>> Open(const std::string& directory);
  ~WeightFiles();
  const TensorInfo* Find(const std::string& name) const;  // null: absent
  std::vector<const TensorInfo*> tensors() const;

 private:
  WeightFiles();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_SAFETENSORS_H_
