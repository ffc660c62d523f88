// One byte read for 2 or 4 written. The values of the codes are a table of 256.
#include "kernels/quantize/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {
namespace {

constexpr float E4m3Value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const int lead = exponent == 0 ? 0 : 8, shift = std::max(exponent, 1) - 1;
  const float size = static_cast<float>((lead + fraction) << shift) * 0x1p-9f;
  return (code & 128) != 0 ? -size : size;
}

constexpr auto kE4m3Values = [] {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) values[static_cast<size_t>(code)] = E4m3Value(code);
  return values;
}();

void Put(float value, float* out) { *out = value; }
void Put(float value, uint16_t* out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  *out = static_cast<uint16_t>((value == value ? rounded : bits | 0x00400000u) >> 16);
}

template <typename T>
void DequantizeRow(const Fp8BlocksDequantizeArgs& args, int64_t row) {
  const uint8_t* const codes = args.codes + row * args.cols;
  T* const out = static_cast<T*>(args.out) + row * args.cols;
  const float* const scales =
      args.scales + (args.first_row + row) / kFp8Block * Fp8Blocks(args.cols);
  for (int64_t block = 0; block < Fp8Blocks(args.cols); ++block) {
    const float scale = scales[block];
    const int64_t end = std::min((block + 1) * kFp8Block, args.cols);
    for (int64_t i = block * kFp8Block; i < end; ++i) Put(kE4m3Values[codes[i]] * scale, out + i);
  }
}

}  // namespace

void Fp8BlocksDequantize(const Fp8BlocksDequantizeArgs& args, Stream* stream) {
  cpu::RequireExtent(args.rows, "Fp8BlocksDequantize", "rows");
  cpu::RequireExtent(args.cols, "Fp8BlocksDequantize", "cols");
  cpu::RequireExtent(args.first_row, "Fp8BlocksDequantize", "first_row");
  cpu::ParallelFor(args.rows, args.cols, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (args.dtype == DType::kFloat32) {
        DequantizeRow<float>(args, row);
      } else {
        DequantizeRow<uint16_t>(args, row);
      }
    }
  });
}

}  // namespace coxswain::kernels
