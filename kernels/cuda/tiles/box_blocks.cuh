// Sums of a warpgroup's product as pairs of bfloat16, and where they lie in boxes of the copy
// engine.
#ifndef COXSWAIN_KERNELS_CUDA_TILES_BOX_BLOCKS_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_BOX_BLOCKS_CUH_

#include <cuda_bf16.h>

#include <cstdint>

namespace coxswain::kernels::cuda {

// Two neighbours of a row: the lower column in the lower half.
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Where a lane finds its row of four 8x8 blocks (mma.cuh) in a box of kColumns, 32 or 64, by the 64
// rows of its warpgroup: rows 0-7 and 8-15 of the warp, then the same of the next 8 columns. `pair`
// counts 16 columns.
template <int kColumns>
__device__ __forceinline__ unsigned BlocksOffset(unsigned pair) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned row = threadIdx.x % 128 / 32 * 16 + (lane >> 3 & 1) * 8 + (lane & 7);
  const unsigned chunk = 2 * pair + (lane >> 4);
  return kColumns == 64 ? row * 128 + (chunk ^ (row & 7)) * 16
                        : row * 64 + (chunk ^ (row >> 1 & 3)) * 16;
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TILES_BOX_BLOCKS_CUH_
