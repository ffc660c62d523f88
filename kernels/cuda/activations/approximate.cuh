// The special-function instructions that kernels use, and what they are off by.
#ifndef COXSWAIN_KERNELS_CUDA_ACTIVATIONS_APPROXIMATE_CUH_
#define COXSWAIN_KERNELS_CUDA_ACTIVATIONS_APPROXIMATE_CUH_

namespace coxswain::kernels::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

// 2^x, off by 4 u relative, u = 2^-24; 0 below 2^-126.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x to one unit in the last place; 0 for infinity, NaN stays.
__device__ __forceinline__ float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// sqrt(x) to one unit in the last place; 0 below 2^-126.
__device__ __forceinline__ float SquareRoot(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ACTIVATIONS_APPROXIMATE_CUH_
