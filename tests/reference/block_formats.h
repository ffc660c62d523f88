// Weights in blocks with a scale each, dequantised in double.
#ifndef COXSWAIN_TESTS_REFERENCE_BLOCK_FORMATS_H_
#define COXSWAIN_TESTS_REFERENCE_BLOCK_FORMATS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace coxswain::reference {

// E4M3 in double, from the fields of its numbers (kernels/quantize/fp8_blocks.h).
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1.

// Sign, four bits of exponent with bias 7, three of fraction; exponent 0 has no leading one.
inline double Fp8E4m3Value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size =
      exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return (code & 128) != 0 ? -size : size;
}

// MXFP4 in double, from the fields of its numbers (kernels/quantize/mxfp4.h).
// Source: "OCP Microscaling Formats (MX) Specification", 1.0, sections 5.3 and 6.3.

// E2M1: sign, two bits of exponent with bias 1, one of fraction; exponent 0 has no leading one.
inline double Mxfp4Element(int code) {
  const int exponent = code >> 1 & 3, fraction = code & 1;
  const double size = exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
  return (code & 8) != 0 ? -size : size;
}

inline double Mxfp4Value(int code, int scale) {
  if (scale == 255) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(Mxfp4Element(code), scale - 127);
}

struct Mxfp4Quantized {
  std::vector<int> codes;
  int scale = 0;
};

// One block, by trying every code.
inline Mxfp4Quantized Mxfp4QuantizeBlock(const std::vector<float>& block) {
  double largest = 0;
  bool finite = true;
  for (const float x : block) {
    finite = finite && std::isfinite(x);
    largest = std::max(largest, std::abs(double{x}));
  }
  Mxfp4Quantized out{.codes = std::vector<int>(block.size())};
  if (!finite) out.scale = 255;
  if (!finite || largest == 0) return out;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  out.scale = std::max(0, exponent - 1 - 2 + 127);
  for (size_t i = 0; i < block.size(); ++i) {
    int best = 0;
    for (int code = 1; code < 8; ++code) {
      const double off = std::abs(Mxfp4Value(code, out.scale) - std::abs(double{block[i]}));
      const double least = std::abs(Mxfp4Value(best, out.scale) - std::abs(double{block[i]}));
      if (off < least || (off == least && code % 2 == 0)) best = code;
    }
    out.codes[i] = best | (block[i] < 0 ? 8 : 0);
  }
  return out;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_BLOCK_FORMATS_H_
