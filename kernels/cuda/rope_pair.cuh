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

// N pairs of the vectors `first` and `second`.
template <bool kInterleaved, class V>
__device__ __forceinline__ void TurnPairs(const float (&cos)[V::kSize],
                                          const float (&sin)[V::kSize], V* first, V* second) {
  constexpr int kSize = V::kSize;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    // Interleaved, the two vectors follow each other and a pair is two neighbours of either.
    constexpr bool kNeighbours = kInterleaved && kSize > 1;
    float& a = !kNeighbours    ? first->value[i]
               : 2 * i < kSize ? first->value[2 * i % kSize]
                               : second->value[2 * i % kSize];
    float& b = !kNeighbours    ? second->value[i]
               : 2 * i < kSize ? first->value[(2 * i + 1) % kSize]
                               : second->value[(2 * i + 1) % kSize];
    const float old_a = a, old_b = b;
    a = TurnedFirst(old_a, old_b, cos[i], sin[i]);
    b = TurnedSecond(old_a, old_b, cos[i], sin[i]);
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ROPE_PAIR_CUH_
