// A pair (a, b) turned by an angle: a' = a cos - b sin, b' = b cos + a sin. The roundings are
// fixed, so that every kernel that turns has the same bits.
#ifndef COXSWAIN_KERNELS_CUDA_ROPE_PAIR_CUH_
#define COXSWAIN_KERNELS_CUDA_ROPE_PAIR_CUH_

namespace coxswain::kernels::cuda {

__device__ __forceinline__ float TurnedFirst(float a, float b, float cos, float sin) {
  return __fmaf_rn(a, cos, -__fmul_rn(b, sin));
}
__device__ __forceinline__ float TurnedSecond(float a, float b, float cos, float sin) {
  return __fmaf_rn(a, sin, __fmul_rn(b, cos));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ROPE_PAIR_CUH_
