// Matrices that bitsandbytes has quantised, as its checkpoints hold them: beside the codes
// `X.weight` (nf4: U8 [elements / 2, 1], int8: I8 [rows, cols]) lie their scales.
//   nf4   X.weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4 (JSON) and, doubly quantised,
//         .nested_absmax, .nested_quant_map
//   int8  X.SCB, X.weight_format
// Source: bitsandbytes 0.50, QuantState.as_dict and Linear8bitLt._save_to_state_dict.
#ifndef COXSWAIN_COMMON_FILES_WEIGHTS_PACKED_MATRIX_H_
#define COXSWAIN_COMMON_FILES_WEIGHTS_PACKED_MATRIX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/weights/weight_files.h"
#include "common/words.h"

namespace coxswain {

struct PackedMatrix {
  Quantization format{};            // kNf4, kNf4Double or kInt8
  std::vector<int64_t> shape;       // of the matrix
  const uint8_t* codes = nullptr;   // into the mapping
  const uint8_t* scales = nullptr;  // nf4: absmax of blocks, F32; doubly quantised: their codes
  // nf4_double: the offset, then the absmax of groups; int8: the absmax of rows.
  std::vector<float> constants;
  std::vector<float> map, scale_map;  // values of the codes of nf4, of its doubly quantised scales
  std::vector<std::string> tensors;   // names of all that it is made of
};

// None: `name`, e.g. "model.layers.0.self_attn.q_proj.weight", is absent or not quantised.
// InvalidArgument names the tensor and what of it is missing or of another format.
absl::StatusOr<std::optional<PackedMatrix>> FindPackedMatrix(const WeightFiles& files,
                                                             const std::string& name);

// What its codes stand for, by its own maps: [elements], each product rounded to float32.
void CopyAsFloat(const PackedMatrix& matrix, float* out);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_WEIGHTS_PACKED_MATRIX_H_
