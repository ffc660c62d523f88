// The activation gelu of glu.cuh and gelu.cu, in two forms.
//   tanh form: gelu(a) = a s, s the logistic function of x = 2 sqrt(2/pi) (a + 0.044715 a^3);
//   gelu'(a) = s + a s (1 - s) dx/da
//   erf form: gelu(a) = a P(a), gelu'(a) = P(a) + a p(a), P and p distribution and density of the
//   normal law
// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.2.17 (P to 7.5e-8,
// which is 1.3 roundings of float32).
//
// Both forms take two special-function instructions and about 20 others. u = 2^-24: s and P are off
// by 6 u, and the slope of the tanh form by 60 u near |a| = 3.5, where the error of 1 - s is
// multiplied by a dx/da.
#ifndef COXSWAIN_KERNELS_CUDA_GELU_CUH_
#define COXSWAIN_KERNELS_CUDA_GELU_CUH_

#include "kernels/cuda/approximate.cuh"
#include "kernels/cuda/glu.cuh"

namespace coxswain::kernels::cuda {

struct TanhGelu {
  static constexpr float kBeta2 = 1.5957691216f;  // 2 sqrt(2 / pi)
  static constexpr float kKappa = 0.044715f;
  static constexpr float kSaturated = 12.0f;  // s is 0 or 1 in float32 from here on

  // Keeps the cube finite. NaN may vanish here: all that is returned is multiplied by a.
  static __device__ __forceinline__ float Clamp(float a) {
    return fminf(fmaxf(a, -kSaturated), kSaturated);
  }
  static __device__ __forceinline__ float Gate(float c) {
    return Logistic(kBeta2 * (c + kKappa * c * c * c));
  }
  static __device__ __forceinline__ float Value(float a) { return a * Gate(Clamp(a)); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float c = Clamp(a), s = Gate(c);
    *value = a * s;
    return s + a * (s * (1.0f - s) * (kBeta2 * (1.0f + 3.0f * kKappa * c * c)));
  }
};

struct ErfGelu {
  static constexpr float kInverseSqrt2Pi = 0.3989422804f;

  static __device__ __forceinline__ float Density(float a) {
    return kInverseSqrt2Pi * __expf(-0.5f * a * a);
  }
  static __device__ __forceinline__ float Below(float a, float density) {
    const float t = Reciprocal(1.0f + 0.2316419f * fabsf(a));
    float p = 1.330274429f;
    p = p * t - 1.821255978f;
    p = p * t + 1.781477937f;
    p = p * t - 0.356563782f;
    p = p * t + 0.319381530f;
    const float tail = density * (p * t);
    return a < 0.0f ? tail : 1.0f - tail;
  }
  static __device__ __forceinline__ float Value(float a) { return a * Below(a, Density(a)); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float density = Density(a), below = Below(a, density);
    *value = a * below;
    return below + a * density;
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_GELU_CUH_
