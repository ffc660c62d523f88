// Where everything goes in a safetensors file that is to be written.
#ifndef COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
#define COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/element_type.h"
#include "common/files/safetensors/safetensors_header.h"

namespace coxswain {

struct TensorForm {
  std::string name;
  ElementType dtype{};
  std::vector<int64_t> shape;
};

struct SafetensorsLayout {
  std::string head;                       // length and header: the file's first bytes
  std::vector<size_t> order;              // tensors as they lie behind it
  std::vector<SafetensorsEntry> entries;  // in that order
  int64_t bytes() const;                  // of the whole file
};

// InvalidArgument names what cannot be written: a name or text that is not UTF-8, a reserved or
// repeated name, sizes that overflow, a header above the format's limit.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, const std::vector<TensorForm>& tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
