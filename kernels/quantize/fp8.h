// A matrix [outer, k] as an operand of products in FP8: codes of 8 bits, k beside each other, and
// float32 scales; x = code scale. The largest value of what shares a scale takes the largest code:
//   scale = amax / M, M = 448 (E4M3) or 57344 (E5M2), at least 2^-126; 1 where amax is 0;
//   code = x (1 / scale), both rounded to float32, then to the format, to nearest even, at most M.
// NaN or infinity makes its scale, and all products with it, NaN or infinite. Where the scale is
// known before, NaN has the code of NaN, and infinity the largest code.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1; DeepSeek-AI,
// "DeepSeek-V3 Technical Report", 2024, section 3.3 (tiles and blocks).
#ifndef COXSWAIN_KERNELS_QUANTIZE_FP8_H_
#define COXSWAIN_KERNELS_QUANTIZE_FP8_H_

#include <cstdint>
#include <stdexcept>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

inline constexpr float kFp8SmallestScale = 0x1p-126f;
// M of a format: the largest finite value.
constexpr float Fp8Largest(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? 448.0f : 57344.0f;
}

// The operand that products over k = cols read: [rows, cols].
struct Fp8Straight {
  uint8_t* codes = nullptr;  // [rows, Fp8Stride(cols)], aligned to 16 bytes; null: not wanted
  float* scales = nullptr;   // [Fp8Scales(scaling, rows, cols)], likewise
};
// The operand that products over k = rows read: the matrix turned, [cols, rows].
struct Fp8Turned {
  uint8_t* codes = nullptr;  // [cols, Fp8Stride(rows)], aligned to 16 bytes; null: not wanted
  float* scales = nullptr;   // [Fp8Scales(scaling, cols, rows)], likewise
};

// Reads x and writes one or both operands. Codes between k and its stride become 0; scales that pad
// their layout are not written. With kTensor and kBlock both have the same scales and, turned, the
// same codes. Same inputs, same bits; with the float32 values of x alike, both libraries give the
// same bits where they are no NaN.
struct Fp8QuantizeArgs {
  DType dtype = DType::kFloat32;
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Scaling scaling = Fp8Scaling::kTensor;
  int64_t rows = 0, cols = 0;
  // kTensor: so many matrices behind each other, in rows of ldx = cols, each with a scale that is
  // found here. Their codes lie behind each other too, their scales beside each other.
  int64_t matrices = 1;
  const void* x = nullptr;  // [rows, cols] in rows of ldx
  int64_t ldx = 0;
  // kTensor: the amax of x, known from its producer, as a float32 on the device; null: it is found
  // here. Values beyond it take the largest code.
  const float* amax = nullptr;
  // kTensor, instead of amax: what amax is expected to be (fp8_history.h), a float32 on the device.
  // Above 0 it is believed as amax is, and a GPU reads x once; at 0 amax is found here.
  const float* expected = nullptr;
  // kTensor: a float32 on the device, >= 0, that becomes the amax of x where this is larger, as
  // bits of integers are: infinity is above all numbers and NaN above infinity. It may be all that
  // is wanted. Null: not wanted.
  float* observed = nullptr;
  Fp8Straight straight = {};
  Fp8Turned turned = {};
  Workspace workspace = {};
};
// Throws std::invalid_argument where `expected` or `observed` are of another scaling, `expected` is
// beside `amax`, or one of them is of several matrices, as `matrices` is of kTensor alone.
inline void CheckFp8Amax(const Fp8QuantizeArgs& args) {
  const bool own = args.amax == nullptr && args.expected == nullptr && args.observed == nullptr;
  const bool whole = args.scaling == Fp8Scaling::kTensor && args.ldx == args.cols;
  if (args.matrices != 1 && !(own && whole)) {
    throw std::invalid_argument(
        "Fp8Quantize: several matrices are of kTensor, without space between their rows, and each "
        "finds its amax");
  }
  if (args.expected == nullptr && args.observed == nullptr) return;
  if (args.scaling != Fp8Scaling::kTensor) {
    throw std::invalid_argument("Fp8Quantize: expected and observed are of kTensor alone");
  }
  if (args.expected != nullptr && args.amax != nullptr) {
    throw std::invalid_argument("Fp8Quantize: amax is known and expected; give one of them");
  }
}

bool Fp8QuantizeSupports(const Fp8QuantizeArgs& args);
// Of one matrix; several need so many times as much.
int64_t Fp8QuantizeWorkspaceBytes(Fp8Scaling scaling, int64_t rows, int64_t cols);
// An extent of 0 writes the scale of kTensor, 1, and nothing else.
void Fp8Quantize(const Fp8QuantizeArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_FP8_H_
