// NF4: a number is one of sixteen, the code of x / absmax of its block of 64. Two codes a byte, the
// first element in the high nibble; of an odd count the last low nibble is 0. Doubly quantised, the
// absmax of blocks are themselves codes of the signed dynamic map, in groups of 256, after their
// mean is taken off.
// Source: Dettmers et al., "QLoRA", 2023; bitsandbytes 0.50, functional.quantize_4bit.
#ifndef COXSWAIN_KERNELS_QUANTIZE_NF4_H_
#define COXSWAIN_KERNELS_QUANTIZE_NF4_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

// Ascending; code 7 is 0.
struct Nf4Map {
  float values[16];
};
inline constexpr Nf4Map kNf4Map = {
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
     -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
     0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
     0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f}};

// The number of middles between two values that lie below x (1 / absmax); a block of zeros, and
// NaN, have code 7. Both libraries give the same bits.
struct Nf4QuantizeArgs {
  int64_t elements = 0;
  const float* in = nullptr;  // [elements]
  uint8_t* codes = nullptr;   // [ceil(elements / 2)]
  float* absmax = nullptr;    // [Nf4Blocks(elements)]
};
void Nf4Quantize(const Nf4QuantizeArgs& args, Stream* stream);

// The offset is the mean, summed in double over kNf4SumLanes lanes in turn and then pairwise, and
// rounded once; a code is the nearest of (absmax - offset) / absmax of its group, the lower one in
// the middle of two. Both libraries give the same bits.
inline constexpr int64_t kNf4SumLanes = 1024;
struct Nf4QuantizeScalesArgs {
  int64_t blocks = 0;
  const float* absmax = nullptr;  // [blocks]
  uint8_t* codes = nullptr;       // [blocks]
  float* constants = nullptr;     // [1 + ceil(blocks / kNf4ScaleGroup)]
};
void Nf4QuantizeScales(const Nf4QuantizeScalesArgs& args, Stream* stream);

// x = map[code] absmax, the product in float32, rounded to `dtype` to nearest even. Doubly
// quantised: absmax = dynamic_map[code] group + offset, each step rounded to float32. The CPU
// writes float32 alone.
struct Nf4DequantizeArgs {
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  const uint8_t* codes = nullptr;         // [ceil(elements / 2)], aligned to 4 bytes
  const float* absmax = nullptr;          // [Nf4Blocks(elements)], or null
  const uint8_t* absmax_codes = nullptr;  // [Nf4Blocks(elements)], where absmax is null
  const float* constants = nullptr;       // of the whole matrix: Nf4Constants, likewise
  // Of a part of a matrix: its first block's number; codes, absmax and out are those of the part.
  int64_t first_block = 0;
  void* out = nullptr;  // [elements]
};
void Nf4Dequantize(const Nf4DequantizeArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_NF4_H_
