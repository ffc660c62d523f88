// The lines of DynamicStep (dynamic_map.h) by the binary exponent of their argument: decades are
// wider than an exponent, so at most two of the seven are the least within one.
#ifndef COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_LINES_H_
#define COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_LINES_H_

#include "kernels/optimizer/dynamic_map.h"

namespace coxswain::kernels {

inline constexpr int kExponents = 256;  // of floats without a sign

// u = slope a + offset of both; the least counts.
struct alignas(16) DynamicLines {
  float slope, offset, next_slope, next_offset;
};

struct DynamicLineTable {
  DynamicLines of[kExponents];  // by the exponent's bits
};

template <bool kSigned>
constexpr DynamicLine LeastDynamicLine(double a) {
  DynamicLine best = DynamicLineOf<kSigned>(0);
  for (int decade = 1; decade < kDynamicDecades; ++decade) {
    const DynamicLine line = DynamicLineOf<kSigned>(decade);
    if (line.slope * a + line.offset < best.slope * a + best.offset) best = line;
  }
  return best;
}

template <bool kSigned>
constexpr DynamicLineTable MakeDynamicLineTable() {
  DynamicLineTable table{};
  const DynamicLine one{0.0f, kDynamicTop<kSigned>};
  constexpr int kOne = 127;  // the exponent of 1
  for (int exponent = kOne; exponent < kExponents; ++exponent) {
    table.of[exponent] = {one.slope, one.offset, one.slope, one.offset};
  }
  double end = 1.0;  // of the arguments with this exponent; they begin at its half
  for (int exponent = kOne - 1; exponent >= 0; --exponent, end /= 2) {
    const DynamicLine first = LeastDynamicLine<kSigned>(exponent > 0 ? end / 2 : 0.0);
    const DynamicLine last = LeastDynamicLine<kSigned>(end);
    table.of[exponent] = {first.slope, first.offset, last.slope, last.offset};
  }
  return table;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_LINES_H_
