// Extents of the quantised formats: what lies beside the codes. Constants alone: the planner sizes
// buffers by them. Formulas: nf4.h, int8_rows.h.
#ifndef COXSWAIN_KERNELS_QUANTIZED_FORMATS_H_
#define COXSWAIN_KERNELS_QUANTIZED_FORMATS_H_

#include <cstdint>

namespace coxswain::kernels {

inline constexpr int64_t kNf4Block = 64;        // elements
inline constexpr int64_t kNf4ScaleGroup = 256;  // blocks

constexpr int64_t Nf4Blocks(int64_t elements) { return (elements + kNf4Block - 1) / kNf4Block; }
// Of double quantisation: the offset, then the absmax of each group.
constexpr int64_t Nf4Constants(int64_t elements) {
  return 1 + (Nf4Blocks(elements) + kNf4ScaleGroup - 1) / kNf4ScaleGroup;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZED_FORMATS_H_
