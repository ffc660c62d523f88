// One element of gradient_sum.h, compiled for host and device alike: both give the same bits.
#ifndef COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_ELEMENT_H_
#define COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_ELEMENT_H_

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"
#include "kernels/philox.h"

namespace coxswain::kernels {

COXSWAIN_HOST_DEVICE inline uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
COXSWAIN_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

inline constexpr uint32_t kInfinityBits = 0x7f800000u;
COXSWAIN_HOST_DEVICE inline bool IsFiniteFloat(uint32_t bits) {
  return (bits & kInfinityBits) != kInfinityBits;
}

// A neighbour of x in bfloat16: `up` in [0, 2^16) is added below its last bit. NaN stays NaN: a
// carry must not walk through its payload.
COXSWAIN_HOST_DEVICE inline float CutToBfloat16(float x, uint32_t up) {
  const uint32_t bits = BitsOfFloat(x);
  const bool nan = (bits & 0x7fffffffu) > kInfinityBits;
  return FloatOfBits((nan ? bits | 0x400000u : bits + up) & 0xffff0000u);
}
// To nearest, ties to even.
COXSWAIN_HOST_DEVICE inline float RoundToBfloat16(float x) {
  return CutToBfloat16(x, 0x7fffu + ((BitsOfFloat(x) >> 16) & 1u));
}

// Adds x to a gradient in bfloat16 and its companion.
COXSWAIN_HOST_DEVICE inline void AddCompensated(float x, float* gradient, float* companion) {
  const float sum = *gradient + (*companion + x);
  *gradient = RoundToBfloat16(sum);
  const bool finite = IsFiniteFloat(BitsOfFloat(sum)) && IsFiniteFloat(BitsOfFloat(*gradient));
  *companion = finite ? RoundToBfloat16(sum - *gradient) : 0.0f;
}

// The block of draws of elements 8 n to 8 n + 7, and that of one of them.
struct GradientDraws {
  uint32_t bin, step, part;
};
COXSWAIN_HOST_DEVICE inline PhiloxWords GradientDrawsCounter(const GradientDraws& draws,
                                                             int64_t n) {
  return {{static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32) + (draws.part << 8), draws.bin,
           draws.step}};
}
COXSWAIN_HOST_DEVICE inline uint32_t DrawOfElement(const PhiloxWords& words, int element) {
  return (words.word[element / 2] >> (element % 2 * 16)) & 0xffffu;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_ELEMENT_H_
