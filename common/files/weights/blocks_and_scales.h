// Weights in blocks with scales, as gpt-oss and DeepSeek publish them; rows are outputs.
//   mxfp4  X_blocks U8 [experts, rows, cols / 32, 16], X_scales U8 [experts, rows, cols / 32]
//   fp8    X F8_E4M3 [experts, rows, cols], X_scale_inv F32 [experts, rows / 128, cols / 128], both
//          divided up: the last blocks are cut
// A matrix that is no stack has no experts in its shapes. What the numbers mean is in
// kernels/quantize/mxfp4.h and kernels/quantize/fp8_blocks.h.
// Source: transformers 5.24, integrations/mxfp4.py and integrations/finegrained_fp8.py.
#ifndef COXSWAIN_COMMON_FILES_WEIGHTS_BLOCKS_AND_SCALES_H_
#define COXSWAIN_COMMON_FILES_WEIGHTS_BLOCKS_AND_SCALES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/weights/weight_files.h"

namespace coxswain {

// Ends the names of the scales of FP8.
inline constexpr char kScalesOfFp8[] = "_scale_inv";

// The tensors are those of the files that it was found in.
struct BlocksAndScales {
  enum class Format { kMxfp4, kFp8 };
  Format format{};
  int64_t experts = 1, rows = 0, cols = 0;
  const TensorInfo* codes = nullptr;
  const TensorInfo* scales = nullptr;
};

// None: `name`, e.g. "model.layers.0.mlp.experts.gate_up_proj" or
// "model.layers.0.self_attn.o_proj.weight", is absent or in no such blocks. InvalidArgument for
// codes without scales or scales without codes, and for other dtypes or shapes: it names the
// tensors, their shapes and their files.
absl::StatusOr<std::optional<BlocksAndScales>> FindBlocksAndScales(const WeightFiles& files,
                                                                   const std::string& name);

struct ExpertRows {
  int64_t expert = 0;
  int64_t begin = 0, end = 0;
};

// Codes and scales of rows in MXFP4, in place: [end - begin, cols / 2], two codes a byte, the first
// in the low nibble, and [end - begin, cols / 32]. The rows are there and the format is kMxfp4.
struct Mxfp4Rows {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
};
Mxfp4Rows Mxfp4RowsOf(const BlocksAndScales& from, const ExpertRows& rows);

// What rows of either format stand for: [end - begin, cols], each product rounded to float32.
// InvalidArgument for rows that are not there.
absl::Status CopyRowsAsFloat(const BlocksAndScales& from, const ExpertRows& rows, float* out);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_WEIGHTS_BLOCKS_AND_SCALES_H_
