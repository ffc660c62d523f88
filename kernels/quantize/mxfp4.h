// MXFP4: blocks of 32 elements with one scale, a power of two in E8M0; codes of 4 bits in E2M1, two
// a byte, the first element in the low nibble. x = value of the code 2^(scale - 127). Blocks lie
// along the rows of a matrix, whose width is a multiple of 32. A scale of 255 is NaN.
// Source: "OCP Microscaling Formats (MX) Specification", 1.0, sections 5.3 and 6.3.
#ifndef COXSWAIN_KERNELS_QUANTIZE_MXFP4_H_
#define COXSWAIN_KERNELS_QUANTIZE_MXFP4_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

// By code.
struct Mxfp4Map {
  float values[16];
};
inline constexpr Mxfp4Map kMxfp4Map = {{0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f,  //
                                        -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f}};
// Between the values of codes i and i + 1. A middle itself has the even one of both.
struct Mxfp4Middles {
  float values[7];
};
inline constexpr Mxfp4Middles kMxfp4Middles = {{0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f}};

// Of a block's largest magnitude m: the scale is floor(log2 m) - 2 + 127, at least 0; the code is
// the value nearest to x / 2^(scale - 127), the even code in the middle of two, 6 beyond 6. Bit 3
// of a code is set for x < 0. A block of zeros has scale 0. A block with NaN or infinity has scale
// 255 and codes 0. Both libraries give the same bits.
struct Mxfp4QuantizeArgs {
  int64_t elements = 0;       // a multiple of kMxfp4Block
  const float* in = nullptr;  // [elements]
  uint8_t* codes = nullptr;   // [elements / 2]
  uint8_t* scales = nullptr;  // [Mxfp4Blocks(elements)]
};
void Mxfp4Quantize(const Mxfp4QuantizeArgs& args, Stream* stream);

// Every product is exact in either dtype, but for those of 2^128 and more, which are infinite. Both
// libraries write both dtypes, with the same bits where they are no NaN. The bits are those of
// transformers 5.24, convert_moe_packed_tensors, but for a scale of 255: it reads 2^128 there.
struct Mxfp4DequantizeArgs {
  DType dtype = DType::kFloat32;
  int64_t elements = 0;             // a multiple of kMxfp4Block
  const uint8_t* codes = nullptr;   // [elements / 2], aligned to 4 bytes
  const uint8_t* scales = nullptr;  // [Mxfp4Blocks(elements)]
  void* out = nullptr;              // [elements]
};
void Mxfp4Dequantize(const Mxfp4DequantizeArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_MXFP4_H_
