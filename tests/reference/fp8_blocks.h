// E4M3 in double, from the fields of its numbers (kernels/quantize/fp8_blocks.h).
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1.
#ifndef COXSWAIN_TESTS_REFERENCE_FP8_BLOCKS_H_
#define COXSWAIN_TESTS_REFERENCE_FP8_BLOCKS_H_

#include <cmath>
#include <limits>

namespace coxswain::reference {

// Sign, four bits of exponent with bias 7, three of fraction; exponent 0 has no leading one.
inline double Fp8E4m3Value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size =
      exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return (code & 128) != 0 ? -size : size;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_FP8_BLOCKS_H_
