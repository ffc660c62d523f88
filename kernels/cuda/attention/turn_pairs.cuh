// The pairs of two vectors turned by an angle each (rope_pair.cuh), halves of a head or neighbours.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_TURN_PAIRS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_TURN_PAIRS_CUH_

#include "kernels/cuda/rope_pair.cuh"

namespace coxswain::kernels::cuda {

// kSize pairs of the vectors `first` and `second`.
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

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_TURN_PAIRS_CUH_
