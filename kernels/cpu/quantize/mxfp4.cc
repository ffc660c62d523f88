// A block is read by its bytes: 16 of codes and one of the scale, for 64 or 128 written. The value
// of a code times a power of two needs no rounding, so that bfloat16 is the upper half of float32.
#include "kernels/quantize/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

constexpr int kNanScale = 255;
constexpr int64_t kBlockBytes = kMxfp4Block / 2;

void RequireBlocks(int64_t elements, const char* op) {
  cpu::RequireExtent(elements, op, "elements");
  if (elements % kMxfp4Block != 0) {
    throw std::invalid_argument(std::string(op) + ": elements is " + std::to_string(elements) +
                                ", must be a multiple of " + std::to_string(kMxfp4Block));
  }
}

// 2^(scale - 127).
COXSWAIN_INLINE float ScaleValue(uint8_t scale) {
  if (scale == kNanScale) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(scale == 0 ? 0x00400000u : static_cast<uint32_t>(scale) << 23);
}

uint8_t CodeOf(float x, float inverse) {
  const float size = std::abs(x) * inverse;
  int code = 0;
  for (int i = 0; i < 7; ++i) {
    const float middle = kMxfp4Middles.values[i];
    code += (i % 2 == 0 ? size > middle : size >= middle) ? 1 : 0;
  }
  return static_cast<uint8_t>(code | (x < 0 ? 8 : 0));
}

void QuantizeBlock(const float* in, uint8_t* codes, uint8_t* scale) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < kMxfp4Block; ++i) {
    largest = std::max(largest, std::abs(in[i]));
    finite = finite && std::isfinite(in[i]);
  }
  if (!finite || largest == 0) {
    *scale = finite ? 0 : kNanScale;
    std::fill_n(codes, kBlockBytes, uint8_t{0});
    return;
  }
  const uint32_t exponent = std::bit_cast<uint32_t>(largest) >> 23;  // floor(log2) + 127, or 0
  *scale = static_cast<uint8_t>(std::max(exponent, 2u) - 2);
  const float inverse = std::bit_cast<float>((254u - *scale) << 23);
  for (int64_t i = 0; i < kBlockBytes; ++i) {
    const int high = CodeOf(in[2 * i + 1], inverse);
    codes[i] = static_cast<uint8_t>(CodeOf(in[2 * i], inverse) | high << 4);
  }
}

COXSWAIN_INLINE void Put(float value, float* out) { *out = value; }
COXSWAIN_INLINE void Put(float value, uint16_t* out) {
  *out = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

template <typename T>
COXSWAIN_INLINE void DequantizeInto(const Mxfp4DequantizeArgs& args, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const float scale = ScaleValue(args.scales[block]);
    const uint8_t* codes = args.codes + block * kBlockBytes;
    T* const out = static_cast<T*>(args.out) + block * kMxfp4Block;
    for (int64_t i = 0; i < kBlockBytes; ++i) {
      Put(kMxfp4Map.values[codes[i] & 15] * scale, out + 2 * i);
      Put(kMxfp4Map.values[codes[i] >> 4] * scale, out + 2 * i + 1);
    }
  }
}

COXSWAIN_VECTORIZE void ToFloats(const Mxfp4DequantizeArgs& args, int64_t begin, int64_t end) {
  DequantizeInto<float>(args, begin, end);
}
COXSWAIN_VECTORIZE void ToBFloat16s(const Mxfp4DequantizeArgs& args, int64_t begin, int64_t end) {
  DequantizeInto<uint16_t>(args, begin, end);
}

}  // namespace

void Mxfp4Quantize(const Mxfp4QuantizeArgs& args, Stream* stream) {
  RequireBlocks(args.elements, "Mxfp4Quantize");
  cpu::ParallelFor(Mxfp4Blocks(args.elements), kMxfp4Block * 8, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      QuantizeBlock(args.in + block * kMxfp4Block, args.codes + block * kBlockBytes,
                    args.scales + block);
    }
  });
}

void Mxfp4Dequantize(const Mxfp4DequantizeArgs& args, Stream* stream) {
  RequireBlocks(args.elements, "Mxfp4Dequantize");
  cpu::ParallelFor(Mxfp4Blocks(args.elements), kMxfp4Block, [&](int64_t begin, int64_t end) {
    if (args.dtype == DType::kFloat32) {
      ToFloats(args, begin, end);
    } else {
      ToBFloat16s(args, begin, end);
    }
  });
}

}  // namespace coxswain::kernels
