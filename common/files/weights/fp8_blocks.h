// Numbers in E4M3, and a matrix as such codes with one scale for each block of 128 x 128: what
// files in FP8 hold. x = code scale; blocks at the edges are cut.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1; DeepSeek-AI,
// "DeepSeek-V3 Technical Report", 2024, section 3.3.
#ifndef COXSWAIN_COMMON_FILES_WEIGHTS_FP8_BLOCKS_H_
#define COXSWAIN_COMMON_FILES_WEIGHTS_FP8_BLOCKS_H_

#include <cstdint>
#include <vector>

namespace coxswain {

inline constexpr int64_t kFp8Block = 128;
inline constexpr float kLargestE4m3 = 448;

// Blocks along an extent.
constexpr int64_t Fp8Blocks(int64_t extent) { return (extent + kFp8Block - 1) / kFp8Block; }

// NaN where all bits but the sign are set; there is no infinity.
float E4m3ToFloat(uint8_t code);
// To nearest even, at most the largest number in size; NaN stays.
uint8_t FloatToE4m3(float value);

struct Fp8Matrix {
  int64_t rows = 0, cols = 0;
  const float* values = nullptr;  // [rows, cols]
};

// [Fp8Blocks(rows), Fp8Blocks(cols)]: the largest size in the block over 448, and 1 of a block of
// zeros. At least 2^-126, the smallest number by which every device divides alike. Infinities and
// NaN do not count.
std::vector<float> Fp8ScalesOf(const Fp8Matrix& matrix);

// Writes the codes [rows, cols] of values over `scales`, which are Fp8ScalesOf(matrix). What is not
// finite becomes NaN. A code stands for its value within 2^-4 of its size, half a unit in the last
// place of a normal number, and within 2^-10 scale below 2^-6 scale, but for the rounding of the
// quotient and of the product to float32.
void WriteFp8Codes(const Fp8Matrix& matrix, const std::vector<float>& scales, uint8_t* codes);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_WEIGHTS_FP8_BLOCKS_H_
