// One byte read for 2 or 4 written. The values of the codes are a table of 256.
#include "kernels/quantize/fp8_blocks.h"

#include <algorithm>
#include <bit>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/quantize/fp8_values.h"

namespace coxswain::kernels {
namespace {

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
    for (int64_t i = block * kFp8Block; i < end; ++i)
      Put(cpu::kFp8Values<Fp8Format::kE4M3>[codes[i]] * scale, out + i);
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
