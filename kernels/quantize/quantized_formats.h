// Extents of the quantised formats: what lies beside the codes. Constants alone: the planner sizes
// buffers by them. Formulas: nf4.h, int8_rows.h, mxfp4.h, fp8_blocks.h, fp8.h,
// fp8_history.h.
#ifndef COXSWAIN_KERNELS_QUANTIZE_QUANTIZED_FORMATS_H_
#define COXSWAIN_KERNELS_QUANTIZE_QUANTIZED_FORMATS_H_

#include <cstdint>

namespace coxswain::kernels {

inline constexpr int64_t kNf4Block = 64;        // elements
inline constexpr int64_t kNf4ScaleGroup = 256;  // blocks

constexpr int64_t Nf4Blocks(int64_t elements) { return (elements + kNf4Block - 1) / kNf4Block; }
// Of double quantisation: the offset, then the absmax of each group.
constexpr int64_t Nf4Constants(int64_t elements) {
  return 1 + (Nf4Blocks(elements) + kNf4ScaleGroup - 1) / kNf4ScaleGroup;
}

inline constexpr int64_t kMxfp4Block = 32;  // elements

// Of a multiple of kMxfp4Block; each has a scale of one byte.
constexpr int64_t Mxfp4Blocks(int64_t elements) { return elements / kMxfp4Block; }

inline constexpr int64_t kFp8Block = 128;  // rows, and columns

// Along one extent.
constexpr int64_t Fp8Blocks(int64_t extent) { return (extent + kFp8Block - 1) / kFp8Block; }

// Of the operands of products (fp8.h, products/fp8_gemm.h).
enum class Fp8Format : uint8_t { kE4M3, kE5M2 };

// What shares a scale in an operand [outer, k].
enum class Fp8Scaling : uint8_t {
  kTensor,  // all
  kRow,     // one of `outer`
  kTile,    // kFp8Block neighbours along k of one of `outer`
  kBlock,   // kFp8Block x kFp8Block
};

inline constexpr int64_t kFp8History = 32;  // updates (fp8_history.h)

// Bytes of a row of codes.
constexpr int64_t Fp8Stride(int64_t k) { return (k + 15) / 16 * 16; }

// An extent of scales as their layouts pad it.
constexpr int64_t Fp8PaddedScales(int64_t count) { return (count + 3) / 4 * 4; }

// Floats beside the codes of an operand [outer, k]. kTensor: one, in 16 bytes. kRow: one after the
// other. kTile: [Fp8Blocks(k)][outer, padded]. kBlock: [Fp8Blocks(outer)][Fp8Blocks(k), padded].
// Source: cuBLAS 13 documentation, "1D and 2D block scaling for FP8 data types".
constexpr int64_t Fp8Scales(Fp8Scaling scaling, int64_t outer, int64_t k) {
  switch (scaling) {
    case Fp8Scaling::kTensor:
      return 4;
    case Fp8Scaling::kRow:
      return Fp8PaddedScales(outer);
    case Fp8Scaling::kTile:
      return Fp8PaddedScales(outer) * Fp8Blocks(k);
    case Fp8Scaling::kBlock:
      return Fp8Blocks(outer) * Fp8PaddedScales(Fp8Blocks(k));
  }
  return 0;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_QUANTIZED_FORMATS_H_
