// Operands in FP8 (kernels/quantize/fp8.h): codes by search over all numbers, scales, and which
// scale an element has. In double, rounded to float32 where the contract rounds.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1.
#ifndef COXSWAIN_TESTS_REFERENCE_FP8_H_
#define COXSWAIN_TESTS_REFERENCE_FP8_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/reference/block_formats.h"

namespace coxswain::reference {

// Sign, five bits of exponent with bias 15, two of fraction; exponent 0 has no leading one, 31 is
// infinity and NaN.
inline double Fp8E5m2Value(int code) {
  const int exponent = code >> 2 & 31, fraction = code & 3;
  double size = exponent == 0 ? std::ldexp(fraction / 4.0, -14)
                              : std::ldexp(1 + fraction / 4.0, exponent - 15);
  if (exponent == 31) {
    size = fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return (code & 128) != 0 ? -size : size;
}

struct Fp8Numbers {
  bool e5m2 = false;

  double Value(int code) const { return e5m2 ? Fp8E5m2Value(code) : Fp8E4m3Value(code); }
  int LastCode() const { return e5m2 ? 0x7b : 0x7e; }  // of the largest finite number
  double Largest() const { return Value(LastCode()); }
  // The nearest number's; of two as near the even one; -1: NaN.
  int Code(double x) const {
    if (std::isnan(x)) return -1;
    const double size = std::abs(x);
    int code = LastCode();
    if (size < Largest()) {
      code = 0;
      while (Value(code + 1) <= size) ++code;
      const double below = size - Value(code), above = Value(code + 1) - size;
      if (above < below || (above == below && code % 2 == 1)) ++code;
    }
    return code | (std::signbit(x) ? 128 : 0);
  }
  // Of elements whose largest size is `amax`.
  float Scale(float amax) const {
    if (amax == 0) return 1.0f;
    const auto scale = static_cast<float>(static_cast<double>(amax) / Largest());
    return scale < 0x1p-126f ? 0x1p-126f : scale;
  }
  int CodeOf(float x, float scale) const {
    const auto inverse = static_cast<float>(1.0 / static_cast<double>(scale));
    return Code(static_cast<float>(static_cast<double>(x) * static_cast<double>(inverse)));
  }
};

// The larger size; NaN before infinity before numbers.
inline float LargerSize(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(std::abs(a), std::abs(b));
}

// Elements of an operand [outer, k] that share a scale: `tall` of outer by `wide` of k, 0: all. The
// scale of element (i, j) is Place(i, j) in memory.
struct Fp8Groups {
  int64_t tall = 0, wide = 0;
  int64_t stride_outer = 0, stride_k = 0;

  int64_t Place(int64_t i, int64_t j) const {
    return (tall == 0 ? 0 : i / tall * stride_outer) + (wide == 0 ? 0 : j / wide * stride_k);
  }
};
inline int64_t Fp8Padded(int64_t count) { return (count + 3) / 4 * 4; }
inline Fp8Groups Fp8TensorGroups() { return {}; }
inline Fp8Groups Fp8RowGroups() { return {.tall = 1, .stride_outer = 1}; }
inline Fp8Groups Fp8TileGroups(int64_t outer) {
  return {.tall = 1, .wide = 128, .stride_outer = 1, .stride_k = Fp8Padded(outer)};
}
inline Fp8Groups Fp8BlockGroups(int64_t k) {
  return {.tall = 128, .wide = 128, .stride_outer = Fp8Padded((k + 127) / 128), .stride_k = 1};
}

struct Fp8Operand {
  std::vector<int> codes;     // [outer, k]; -1: any NaN
  std::vector<float> scales;  // of each element, [outer, k]
};
// x: [outer, k].
inline Fp8Operand Fp8Quantized(const Fp8Numbers& numbers, const Fp8Groups& groups, int64_t outer,
                               int64_t k, const std::vector<float>& x) {
  int64_t places = 1;
  if (outer * k > 0) places += groups.Place(outer - 1, k - 1);
  std::vector<float> largest(static_cast<size_t>(places), 0.0f);
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      float& kept = largest[at(groups.Place(i, j))];
      kept = LargerSize(kept, x[at(i * k + j)]);
    }
  }
  Fp8Operand operand;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const float scale = numbers.Scale(largest[at(groups.Place(i, j))]);
      operand.scales.push_back(scale);
      operand.codes.push_back(numbers.CodeOf(x[at(i * k + j)], scale));
    }
  }
  return operand;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_FP8_H_
