// Writes the safetensors format, byte-compatible with the reference implementation.
// Source: huggingface/safetensors tensor.rs; rules in common/README.md.
#ifndef COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_
#define COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/element_type.h"

namespace coxswain {

struct TensorSource {
  std::string name;
  ElementType dtype{};
  std::vector<int64_t> shape;
  // Called once, in file order; must fill all bytes of the tensor.
  std::function<absl::Status(uint8_t* out)> fill;
};

struct WrittenFile {
  int64_t bytes = 0;
};

// Writes `path` through a temporary file in the same directory: write, fsync, rename, fsync
// directory. One tensor is in memory at a time. Metadata {"format":"pt"} unless given.
// ResourceExhausted on a full disk, PermissionDenied when not writable; both name the path, and
// nothing is left behind.
absl::StatusOr<WrittenFile> WriteSafetensors(const std::string& path,
                                             const std::vector<TensorSource>& tensors,
                                             const std::map<std::string, std::string>& metadata = {
                                                 {"format", "pt"}});

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_
