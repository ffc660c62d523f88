// Weights in FP8 as DeepSeek publishes them: a matrix in E4M3 with one float32 scale for each block
// of 128 x 128, from the first row and column on; blocks at the edges are cut. x = code scale.
// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3; Micikevicius et al., "FP8
// Formats for Deep Learning", 2022, table 1 (E4M3: no infinity, NaN where all bits but the sign are
// set).
#ifndef COXSWAIN_KERNELS_QUANTIZE_FP8_BLOCKS_H_
#define COXSWAIN_KERNELS_QUANTIZE_FP8_BLOCKS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

// The product is rounded to float32, then to `dtype`, each to nearest even. Both libraries write
// both dtypes, with the same bits where they are no NaN: those of transformers 5.24, Fp8Dequantize.
struct Fp8BlocksDequantizeArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0, cols = 0;
  int64_t first_row = 0;  // of the matrix that `scales` is of: the row that comes first here
  const uint8_t* codes = nullptr;  // [rows, cols]
  const float* scales = nullptr;   // [Fp8Blocks(rows of the matrix), Fp8Blocks(cols)]
  void* out = nullptr;             // [rows, cols]
};
void Fp8BlocksDequantize(const Fp8BlocksDequantizeArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_FP8_BLOCKS_H_
