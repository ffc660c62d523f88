// Gradients of turned heads, turned back in the registers of the products that summed them.
//   a = a' cos + b' sin;  b = b' cos - a' sin; (a, b) are the halves of a head
// Source: kernels/rope.h, backward. Bytes: the tables, from the caches.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ROTATION_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ROTATION_CUH_

#include "kernels/cuda/attention/hopper_tiles.cuh"
#include "kernels/cuda/rope_pair.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace coxswain::kernels::cuda {

// A lane's sums of two rows of 2 kCount columns at `position`: it has both of a pair, for column c
// is sum n of a row where c + kCount is sum n + kCount / 2. Nothing where p has no tables.
template <int kCount>
__device__ __forceinline__ void TurnBack(const HopperParams& p, const int (&position)[2],
                                         float (&d)[kCount]) {
  if (p.cos == nullptr) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t row = int64_t{position[h]} * kCount + threadIdx.x % 4 * 2;
#pragma unroll
    for (int k = 0; k < kCount / 8; ++k) {
      const float2 cos = __ldg(reinterpret_cast<const float2*>(p.cos + row + 8 * k));
      const float2 sin = __ldg(reinterpret_cast<const float2*>(p.sin + row + 8 * k));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float &a = d[4 * k + 2 * h + i], &b = d[4 * k + 2 * h + i + kCount / 2];
        const float c = i == 0 ? cos.x : cos.y, s = i == 0 ? -sin.x : -sin.y, turned = a;
        a = TurnedFirst(turned, b, c, s);
        b = TurnedSecond(turned, b, c, s);
      }
    }
  }
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_ROTATION_CUH_
