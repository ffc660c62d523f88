// One tensor of an exported model, and the bytes of it.
#ifndef COXSWAIN_CONTROLLER_EXPORT_MODEL_TENSOR_H_
#define COXSWAIN_CONTROLLER_EXPORT_MODEL_TENSOR_H_

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/weights/blocks_and_scales.h"
#include "common/files/weights/packed_matrix.h"
#include "common/model/files/stacked_files.h"

namespace coxswain::exports {

// One tensor of the exported model and where its values come from.
struct ModelTensor {
  std::string name;                             // in the file
  const model::Parameter* parameter = nullptr;  // null: beside the text model, taken as it is
  PiecedTensor weights;                         // checkpoint master, or base
  const PiecedTensor* lora_a = nullptr;         // [r, cols], null: nothing to merge
  const PiecedTensor* lora_b = nullptr;         // [rows, r]
  const PiecedTensor* magnitude = nullptr;      // [rows], null: no DoRA
  ElementType dtype{};
  std::vector<int64_t> shape;
  std::vector<model::RowRange> file_rows = {};
  bool from_base = false;  // in the order of the file; a checkpoint's are in that of memory
  std::optional<PackedMatrix> packed = {};  // the base's, quantised, in place of `weights`
  // Of a stack of matrices that was trained or is adapted: the file, and the number of its matrix
  // or, where the file has all of them, 0. `weights` is the trained stack or the base's file.
  std::optional<model::StackedFile> stacked = {};
  int64_t matrix = 0;
  std::optional<BlocksAndScales> blocks = {};  // the base's, in place of `weights`

  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
};

// Writes the tensor as its file has it: the trained values, or the base's with the adapters merged,
// in the order of the file and in `tensor.dtype`. Unimplemented: a dtype that is not written.
absl::Status FillTensor(const ModelTensor& tensor, double lora_scale, uint8_t* out);

// The same in float32, whatever its dtype.
absl::StatusOr<std::vector<float>> ValuesOf(ModelTensor tensor, double lora_scale);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_MODEL_TENSOR_H_
