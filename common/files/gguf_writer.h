// Writes the GGUF container, version 3, as llama.cpp reads it. Source: the GGUF specification of
// ggml.
#ifndef COXSWAIN_COMMON_FILES_GGUF_WRITER_H_
#define COXSWAIN_COMMON_FILES_GGUF_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/files/gguf_type.h"

namespace coxswain {

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>,
                               std::vector<float>, std::vector<int32_t>>;

struct GgufField {
  std::string key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  GgufType type{};
  std::vector<int64_t> shape;  // slowest first: [out, in]; the file has them the other way round
  // Equal pieces of whole rows that are filled one after another.
  int64_t parts = 1;
  // Called once for each part, in order; must fill the part's elements, in row-major order.
  std::function<absl::Status(int64_t part, float* out)> fill = nullptr;

  int64_t elements() const;
};

// Writes `path` as WriteSafetensors does: whole and on disk, or not at all. One part of one tensor
// is in memory at a time. Tensors begin at multiples of 32 bytes, in the order given.
// InvalidArgument: two tensors have one name, or rows of a quantised tensor are not whole blocks.
absl::Status WriteGguf(const std::string& path, const std::vector<GgufField>& fields,
                       const std::vector<GgufTensor>& tensors);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_WRITER_H_
