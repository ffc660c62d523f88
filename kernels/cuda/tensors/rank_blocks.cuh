// Narrow matrices in shared memory, [columns, ranks] or [ranks, columns], as operands of mma.cuh.
#ifndef COXSWAIN_KERNELS_CUDA_TENSORS_RANK_BLOCKS_CUH_
#define COXSWAIN_KERNELS_CUDA_TENSORS_RANK_BLOCKS_CUH_

#include <cstdint>

#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// Of a row in shared memory: 16 bytes more, so that eight rows of a block lie in different banks.
__host__ __device__ constexpr int RowBytes(int columns) { return kBf16Bytes * columns + 16; }
// Of a row of ranks: an odd number of 16-byte vectors, for the banks.
__host__ __device__ constexpr int RankRowBytes(int rank_tiles) { return 16 * (rank_tiles | 1); }

// Second operands (mma.cuh) of 16 columns and 8 kRankTiles ranks, from column `column` on of a
// matrix [columns, ranks] in shared memory, in rows of `row_bytes`; kAlongColumns: stored
// [ranks, columns].
template <int kRankTiles, bool kAlongColumns>
__device__ __forceinline__ void LoadRankBlocks(uint32_t w, int row_bytes, int column, int lane,
                                               uint32_t (&to)[kRankTiles][2]) {
#pragma unroll
  for (int i = 0; i < kRankTiles; i += 2) {
    uint32_t pair[4];
    const int high = lane / 16;
    const uint32_t at = kAlongColumns ? w + (8 * (i + high) + lane % 8) * row_bytes +
                                            kBf16Bytes * (column + lane / 8 % 2 * 8)
                                      : w + (column + lane % 16) * row_bytes + 16 * (i + high);
    if (i + 1 < kRankTiles) {
      if constexpr (kAlongColumns) {
        LoadBlocks4(at, pair);
      } else {
        LoadBlocks4Transposed(at, pair);
      }
      to[i + 1][0] = pair[2];
      to[i + 1][1] = pair[3];
    } else {
      uint32_t(&single)[2] = reinterpret_cast<uint32_t(&)[2]>(pair);
      // Lanes 16 to 31 give no address here; theirs must still be within the array.
      const uint32_t low = at - (high == 0 ? 0 : kAlongColumns ? 8 * row_bytes : 16);
      if constexpr (kAlongColumns) {
        LoadBlocks2(low, single);
      } else {
        LoadBlocks2Transposed(low, single);
      }
    }
    to[i][0] = pair[0];
    to[i][1] = pair[1];
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TENSORS_RANK_BLOCKS_CUH_
