#ifndef COXSWAIN_KERNELS_CPU_ACTIVATIONS_GELU_H_
#define COXSWAIN_KERNELS_CPU_ACTIVATIONS_GELU_H_

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

// GELU and its derivative at one point, shared by geglu.cc and gelu.cc. To be inlined into
// vectorised loops.
// tanh form: (1 + tanh x) / 2 is the logistic function of 2 x. erf form: the normal distribution
// function, to 7.5e-8, which is 1.3 roundings of float32.
// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.2.17.
struct GeluPoint {
  float value, slope;
};

COXSWAIN_INLINE GeluPoint TanhGelu(float a) {
  constexpr float kBeta2 = 1.5957691216f;  // 2 sqrt(2 / pi)
  constexpr float kKappa = 0.044715f;
  constexpr float kSaturated = 12.0f;  // 0 or 1 in float32 from here on
  const float c = a < -kSaturated ? -kSaturated : (a > kSaturated ? kSaturated : a);
  const float s = 1.0f / (1.0f + Exp(-kBeta2 * (c + kKappa * c * c * c)));
  return {a * s, s + a * (s * (1.0f - s) * (kBeta2 * (1.0f + 3.0f * kKappa * c * c)))};
}

COXSWAIN_INLINE GeluPoint ErfGelu(float a) {
  constexpr float kInverseSqrt2Pi = 0.3989422804f;
  const float t = 1.0f / (1.0f + 0.2316419f * std::abs(a));
  const float density = kInverseSqrt2Pi * Exp(-0.5f * a * a);
  float p = 1.330274429f;
  p = p * t - 1.821255978f;
  p = p * t + 1.781477937f;
  p = p * t - 0.356563782f;
  p = p * t + 0.319381530f;
  const float tail = density * (p * t);
  const float below = a < 0.0f ? tail : 1.0f - tail;
  return {a * below, below + a * density};
}

template <bool kTanh>
COXSWAIN_INLINE GeluPoint Gelu(float a) {
  return kTanh ? TanhGelu(a) : ErfGelu(a);
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_ACTIVATIONS_GELU_H_
