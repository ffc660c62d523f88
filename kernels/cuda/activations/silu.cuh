// The activation silu(a) = a s of glu.cuh, s = 1 / (1 + e^-a), silu'(a) = s (1 + a (1 - s)). s
// comes of two special-function instructions; its error (glu.cuh) times a stays below 8 u max(1,
// |a|), as the part that grows with |a| is multiplied by 1 - s or, below zero, by s.
#ifndef COXSWAIN_KERNELS_CUDA_ACTIVATIONS_SILU_CUH_
#define COXSWAIN_KERNELS_CUDA_ACTIVATIONS_SILU_CUH_

#include "kernels/cuda/activations/glu.cuh"

namespace coxswain::kernels::cuda {

struct Silu {
  static __device__ __forceinline__ float Value(float a) { return a * Logistic(a); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float s = Logistic(a);
    *value = a * s;
    return __fmaf_rn(*value, 1.0f - s, s);
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ACTIVATIONS_SILU_CUH_
