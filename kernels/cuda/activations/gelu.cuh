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
// multiplied by a dx/da. Every rounding is spelled out: left to the compiler, which products and
// sums become one operation depends on the code around them, and gates.h and gated_linear.h promise
// the same bits.
#ifndef COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GELU_CUH_
#define COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GELU_CUH_

#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/activations/glu.cuh"

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
    const float square = __fmul_rn(__fmul_rn(kKappa, c), c);
    return Logistic(__fmul_rn(kBeta2, __fmaf_rn(square, c, c)));
  }
  static __device__ __forceinline__ float Value(float a) { return a * Gate(Clamp(a)); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float c = Clamp(a), s = Gate(c);
    *value = a * s;
    const float inner = __fmul_rn(kBeta2, __fmaf_rn(__fmul_rn(3.0f * kKappa, c), c, 1.0f));
    return __fmaf_rn(a, __fmul_rn(__fmul_rn(s, __fsub_rn(1.0f, s)), inner), s);
  }
};

struct ErfGelu {
  static constexpr float kInverseSqrt2Pi = 0.3989422804f;

  static __device__ __forceinline__ float Density(float a) {
    return __fmul_rn(kInverseSqrt2Pi, __expf(__fmul_rn(__fmul_rn(-0.5f, a), a)));
  }
  static __device__ __forceinline__ float Below(float a, float density) {
    const float t = Reciprocal(__fmaf_rn(0.2316419f, fabsf(a), 1.0f));
    float p = 1.330274429f;
    p = __fmaf_rn(p, t, -1.821255978f);
    p = __fmaf_rn(p, t, 1.781477937f);
    p = __fmaf_rn(p, t, -0.356563782f);
    p = __fmaf_rn(p, t, 0.319381530f);
    const float tail = __fmul_rn(density, __fmul_rn(p, t));
    return a < 0.0f ? tail : __fsub_rn(1.0f, tail);
  }
  static __device__ __forceinline__ float Value(float a) { return a * Below(a, Density(a)); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float density = Density(a), below = Below(a, density);
    *value = a * below;
    return __fmaf_rn(a, density, below);
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GELU_CUH_
