// Reads the safetensors format, byte-compatible with the reference implementation.
// Source: huggingface/safetensors tensor.rs; rules in common/README.md.
#ifndef COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_H_
#define COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/tensor_info.h"

namespace coxswain {

// A mapped file. Tensors stay valid as long as it lives. Open refuses (InvalidArgument, with path
// and tensor name): short file, oversized header, bad JSON, duplicate names, unknown dtype, shape
// that disagrees with its offsets, holes, overlaps, trailing bytes. What was read of tensors counts
// once Intact, asked after it, says OK.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();

  const std::vector<TensorInfo>& tensors() const;         // offset order
  const TensorInfo* Find(const std::string& name) const;  // null: absent
  const std::map<std::string, std::string>& metadata() const;
  const std::string& path() const;
  std::string_view content() const;  // all bytes of the file
  absl::Status Intact() const;       // MappedFile::Intact

 private:
  SafetensorsFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_H_
