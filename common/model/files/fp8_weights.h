// Which tensors of a model its files in FP8 hold as codes with scales of blocks.
#ifndef COXSWAIN_COMMON_MODEL_FILES_FP8_WEIGHTS_H_
#define COXSWAIN_COMMON_MODEL_FILES_FP8_WEIGHTS_H_

#include <vector>

#include "absl/status/status.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// Extents of a matrix in FP8 are multiples of it: readers take whole blocks. Source: transformers
// 5.24, Fp8Dequantize._dequantize_one, which makes the block from the shapes of both tensors.
inline constexpr int64_t kFp8WeightBlock = 128;

// By index into `table`: the weights of linears of blocks whose extents fit. Where one of a packed
// matrix (q, k and v; gate and up) does not fit, none of it is in FP8: vLLM loads them as one
// linear. Source: vLLM, quant_utils.py, is_layer_skipped, and fp8_utils.py,
// validate_fp8_block_shape.
std::vector<bool> WeightsInFp8(const std::vector<Parameter>& table);

// Unimplemented names the first stack of experts, or says that no weight fits.
absl::Status CheckFp8Weights(const std::vector<Parameter>& table);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FILES_FP8_WEIGHTS_H_
