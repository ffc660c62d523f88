// The dynamic 8-bit format: 256 values in [-1, 1] or [0, 1], ascending, dense where a state of an
// optimizer or a scale lies most often. A block of numbers is stored as the codes of x / absmax
// beside its absmax in float32.
//
// The values of decade i = 0 .. 6 are 10^(i - 6) times the middles of n equal parts of [0.1, 1], n
// = 2^i with a sign and 2^(i + 1) without; besides 0, 1 and, with a sign, the decades' negatives:
// there is no -1. With a sign code 127 is 0, without code 0; code 255 is 1.
// Source: Dettmers, "8-Bit Approximations for Parallelism in Deep Learning", 2015;
// bitsandbytes 0.50, functional.create_dynamic_map(signed, max_exponent_bits 7, total_bits 8).
#ifndef COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_MAP_H_
#define COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_MAP_H_

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"

namespace coxswain::kernels {

inline constexpr int kDynamicCodes = 256;

struct DynamicMap {
  float values[kDynamicCodes];  // ascending
};

// The float32 values are those of bitsandbytes bit for bit: a bound between two parts is rounded
// once, from the nearer end of [0.1, 1].
constexpr DynamicMap MakeDynamicMap(bool has_sign) {
  constexpr float kDecades[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  DynamicMap map{};
  int code = has_sign ? 127 : 0;
  map.values[code++] = 0.0f;
  for (int i = 0; i < 7; ++i) {
    const int parts = (has_sign ? 1 : 2) << i;
    const double part = (1.0f - 0.1f) / static_cast<float>(parts);
    const auto bound = [&](int k) {
      return static_cast<float>(k < (parts + 1) / 2 ? 0.1f + part * k : 1.0 - part * (parts - k));
    };
    for (int k = 0; k < parts; ++k, ++code) {
      map.values[code] = kDecades[i] * ((bound(k) + bound(k + 1)) / 2.0f);
      if (has_sign) map.values[254 - code] = -map.values[code];
    }
  }
  map.values[255] = 1.0f;
  return map;
}

inline constexpr DynamicMap kSignedDynamicMap = MakeDynamicMap(true);
inline constexpr DynamicMap kUnsignedDynamicMap = MakeDynamicMap(false);

// The code of the value nearest to x, the lower one in the middle of two; NaN: code 0.
COXSWAIN_HOST_DEVICE constexpr uint8_t NearestCode(const DynamicMap& map, float x) {
  int code = 0;  // as many as there are middles below x
  for (int step = 128; step > 0; step /= 2) {
    const float middle = 0.5f * (map.values[code + step - 1] + map.values[code + step]);
    code += middle < x ? step : 0;
  }
  return static_cast<uint8_t>(code);
}

// The same by arithmetic, without a table or a branch, for inner loops. An x within 2^-14 of the
// step between two values from their middle may take the code of either; NaN takes that of 1.
//
// With u(a) = n + (a 10^(6 - i) - 0.1) n / 0.9, n of the decade i of a, decade i begins at u = n
// and u rises by 1 from one middle of two of its values to the next: u is the least of seven linear
// functions, for their slopes fall by 5 from decade to decade and neighbours meet where the decade
// ends. The middle of two decades' values lies at u = n + 0.2, that below 1 a quarter before it.
// Source: derived from the map's formula above. The first line of each goes through the middles
// around its decade's first value instead.
inline constexpr int kDynamicDecades = 7;
template <bool kSigned>
inline constexpr float kDynamicTop = kSigned ? 128.0f : 256.0f;  // u of 1

struct DynamicLine {
  float slope, offset;  // u = slope a + offset
};

template <bool kSigned>
COXSWAIN_HOST_DEVICE constexpr DynamicLine DynamicLineOf(int decade) {
  constexpr float kScale = kSigned ? 1.0f : 2.0f;
  // Signed: (0.275e-6, 1.2) and (1e-6, 2). Unsigned: (0.1625e-6, 2.2) and (0.55e-6, 3).
  if (decade == 0) {
    return kSigned ? DynamicLine{0.8e6f / 0.725f, 1.2f - 0.22f / 0.725f}
                   : DynamicLine{0.8e6f / 0.3875f, 2.2f - 0.13f / 0.3875f};
  }
  constexpr float kSlopes[] = {0.0f, 2e5f, 4e4f, 8e3f, 1.6e3f, 3.2e2f, 6.4e1f};
  const float power = static_cast<float>(1 << decade);
  return {kSlopes[decade] * (kScale / 0.9f), power * (kScale * 0.8f / 0.9f)};
}

template <bool kSigned>
COXSWAIN_HOST_DEVICE inline int32_t DynamicStep(float a) {
  constexpr DynamicLine kFirst = DynamicLineOf<kSigned>(0);
  float u = a * kFirst.slope + kFirst.offset;
  const auto line = [&](DynamicLine of) {
    const float other = a * of.slope + of.offset;
    u = other < u ? other : u;
  };
  line(DynamicLineOf<kSigned>(1));
  line(DynamicLineOf<kSigned>(2));
  line(DynamicLineOf<kSigned>(3));
  line(DynamicLineOf<kSigned>(4));
  line(DynamicLineOf<kSigned>(5));
  line(DynamicLineOf<kSigned>(6));
  // Below 2^k + 0.2 the exponents differ.
  const float below = u - 0.2f;
  const bool same = (std::bit_cast<uint32_t>(u) ^ std::bit_cast<uint32_t>(below)) < 0x800000u;
  constexpr float kTop = kDynamicTop<kSigned>;
  return static_cast<int32_t>(u >= kTop - 0.25f ? kTop : same ? u : below);
}
COXSWAIN_HOST_DEVICE inline uint8_t SignedDynamicCode(float x) {
  const float size = x < 0.0f ? -x : x;
  const int32_t step = DynamicStep<true>(size < 1.0f ? size : 1.0f);
  return static_cast<uint8_t>(x < 0.0f ? 127 - (step < 127 ? step : 127) : 127 + step);
}
// x >= 0.
COXSWAIN_HOST_DEVICE inline uint8_t UnsignedDynamicCode(float x) {
  return static_cast<uint8_t>(DynamicStep<false>(x < 1.0f ? x : 1.0f) - 1);
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_OPTIMIZER_DYNAMIC_MAP_H_
