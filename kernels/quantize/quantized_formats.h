// Extents of the quantised formats: what lies beside the codes. Constants alone: the planner sizes
// buffers by them. Formulas: nf4.h, int8_rows.h, mxfp4.h,
// fp8_blocks.h.
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

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_QUANTIZED_FORMATS_H_
