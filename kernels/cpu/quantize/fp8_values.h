// The numbers of FP8 codes, and the code of a number.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1.
#ifndef COXSWAIN_KERNELS_CPU_QUANTIZE_FP8_VALUES_H_
#define COXSWAIN_KERNELS_CPU_QUANTIZE_FP8_VALUES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/vectorize.h"
#include "kernels/quantize/fp8.h"

namespace coxswain::kernels::cpu {

// Bits of exponent are 7 less these of fraction.
constexpr int Fp8FractionBits(Fp8Format format) { return format == Fp8Format::kE4M3 ? 3 : 2; }
constexpr int Fp8ExponentBias(Fp8Format format) { return format == Fp8Format::kE4M3 ? 7 : 15; }

constexpr float Fp8Value(Fp8Format format, int code) {
  const int bits = Fp8FractionBits(format), ones = (1 << bits) - 1;
  const int exponent = (code & 127) >> bits, fraction = code & ones;
  const bool last = exponent == 127 >> bits;
  if (last && (format == Fp8Format::kE5M2 ? fraction > 0 : fraction == ones)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  float size = std::numeric_limits<float>::infinity();
  if (!last || format == Fp8Format::kE4M3) {
    const auto lead = static_cast<uint64_t>(exponent == 0 ? 0 : ones + 1);
    const float smallest = format == Fp8Format::kE4M3 ? 0x1p-9f : 0x1p-16f;
    const auto units = (lead + static_cast<uint64_t>(fraction)) << (std::max(exponent, 1) - 1);
    size = static_cast<float>(units) * smallest;
  }
  return (code & 128) != 0 ? -size : size;
}

// By code.
template <Fp8Format kFormat>
inline constexpr auto kFp8Values = [] {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    values[static_cast<size_t>(code)] = Fp8Value(kFormat, code);
  }
  return values;
}();

// To nearest even, at most the largest number; NaN stays.
template <Fp8Format kFormat>
COXSWAIN_INLINE uint8_t Fp8Code(float x) {
  constexpr int kDropped = 23 - Fp8FractionBits(kFormat);
  constexpr int kBias = Fp8ExponentBias(kFormat);
  constexpr uint32_t kRebias = uint32_t{127 - kBias} << 23;
  constexpr float kSmallestNormal = std::bit_cast<float>(kRebias + (1u << 23));
  // One over the smallest number; x times it plus 2^23 has x rounded to it in its last bits.
  constexpr float kUnits = std::bit_cast<float>(uint32_t{126 + kBias + 23 - kDropped} << 23);
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 24 & 128u;
  const float size = std::bit_cast<float>(bits & 0x7fffffffu);
  const float bound = size > Fp8Largest(kFormat) ? Fp8Largest(kFormat) : size;
  const uint32_t b = std::bit_cast<uint32_t>(bound);
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (b >> kDropped & 1u);
  const uint32_t normal = (b + half - kRebias) >> kDropped;
  const uint32_t subnormal = std::bit_cast<uint32_t>(bound * kUnits + 0x1p23f) & 127u;
  const uint32_t code = bound < kSmallestNormal ? subnormal : normal;
  return static_cast<uint8_t>(sign | (size == size ? code : 127u));
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_QUANTIZE_FP8_VALUES_H_
