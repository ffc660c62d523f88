#include "common/files/weights/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace coxswain {
namespace {

constexpr uint8_t kE4m3Nan = 0x7F;

constexpr float E4m3Value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const int units = exponent == 0 ? fraction : (8 + fraction) << (exponent - 1);
  const float size = static_cast<float>(units) * 0x1p-9f;
  return (code & 128) != 0 ? -size : size;
}

constexpr std::array<float, 256> kE4m3Values = [] {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) values[static_cast<size_t>(code)] = E4m3Value(code);
  return values;
}();

}  // namespace

float E4m3ToFloat(uint8_t code) { return kE4m3Values[code]; }

uint8_t FloatToE4m3(float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 24 & 128u;
  const float size = std::fabs(value);
  if (std::isnan(size)) return static_cast<uint8_t>(sign | kE4m3Nan);
  const float bound = std::min(size, kLargestE4m3);
  if (bound < 0x1p-6f) {  // subnormal: units of 2^-9, in which 2^14 makes the last bits count
    const float rounded = bound + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(rounded) & 127u));
  }
  constexpr uint32_t kDropped = 20, kRebias = uint32_t{127 - 7} << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(bound);
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1u);
  return static_cast<uint8_t>(sign | ((bits + half - kRebias) >> kDropped));
}

std::vector<float> Fp8ScalesOf(const Fp8Matrix& matrix) {
  const int64_t across = Fp8Blocks(matrix.cols);
  std::vector<float> scales(static_cast<size_t>(Fp8Blocks(matrix.rows) * across));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    float* const largest = scales.data() + row / kFp8Block * across;
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const float size = std::fabs(matrix.values[row * matrix.cols + col]);
      if (std::isfinite(size)) {
        largest[col / kFp8Block] = std::max(largest[col / kFp8Block], size);
      }
    }
  }
  for (float& scale : scales) {
    scale = scale > 0 ? std::max(scale / kLargestE4m3, std::numeric_limits<float>::min()) : 1.0f;
  }
  return scales;
}

void WriteFp8Codes(const Fp8Matrix& matrix, const std::vector<float>& scales, uint8_t* codes) {
  const int64_t across = Fp8Blocks(matrix.cols);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const float* const of_row = scales.data() + row / kFp8Block * across;
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const float value = matrix.values[row * matrix.cols + col];
      *codes++ = std::isfinite(value) ? FloatToE4m3(value / of_row[col / kFp8Block]) : kE4m3Nan;
    }
  }
}

}  // namespace coxswain
