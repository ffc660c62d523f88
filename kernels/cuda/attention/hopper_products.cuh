// Products of a warpgroup over tiles in boxes of the copy engine, and what lies between them.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_PRODUCTS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_PRODUCTS_CUH_

#include "kernels/cuda/attention/hopper_tiles.cuh"
#include "kernels/cuda/tiles/box_blocks.cuh"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/tiles/wgmma.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace coxswain::kernels::cuda {

template <int kCount, typename T, int kAll>
__device__ __forceinline__ T (&FirstOf(T (&all)[kAll]))[kCount] {
  static_assert(kCount <= kAll);
  return reinterpret_cast<T(&)[kCount]>(all);
}
template <int kCount, int kAll>
__device__ __forceinline__ uint32_t (&FirstOf(uint32_t (&all)[kAll][4]))[kCount][4] {
  static_assert(kCount <= kAll);
  return reinterpret_cast<uint32_t(&)[kCount][4]>(all);
}

// An operand lies in boxes of 64 columns by kRows rows. 16 values of k further:
template <int kRows>
__device__ __forceinline__ uint64_t StepAlong(int k) {
  return static_cast<uint64_t>((k / 4 * kRows * static_cast<int>(kBoxRowBytes) + k % 4 * 32) >> 4);
}
// d = a b^T over kDim columns: a 64 rows of boxes of kLeftRows, b of boxes of kRightRows.
template <int kDim, int kLeftRows, int kRightRows, int kCount>
__device__ __forceinline__ void MultiplyRows(float (&d)[kCount], uint64_t a, uint64_t b) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    Multiply<false>(d, a + StepAlong<kLeftRows>(k), b + StepAlong<kRightRows>(k), k > 0);
  }
}
// The same with a in registers.
template <int kRightRows, int kSteps, int kCount>
__device__ __forceinline__ void MultiplyRows(float (&d)[kCount], const uint32_t (&a)[kSteps][4],
                                             uint64_t b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Multiply<false>(d, a[k], b + StepAlong<kRightRows>(k), k > 0);
}
// d (+)= a b over 16 kSteps rows of b.
template <int kSteps, int kCount>
__device__ __forceinline__ void MultiplyKept(float (&d)[kCount], const uint32_t (&a)[kSteps][4],
                                             uint64_t b, bool add) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    Multiply<true>(d, a[k], b + static_cast<uint64_t>(k) * kStepAcrossK, add || k > 0);
  }
}

// A product's sums, rounded, as the left operand of the next: 16 columns a step.
template <int kSteps>
__device__ __forceinline__ void Pack(const float (&d)[8 * kSteps], uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[k][i] = PackPair(d[8 * k + 2 * i], d[8 * k + 2 * i + 1]);
  }
}
// The warpgroup's 64 rows, in boxes of kRows, as left operand in registers.
template <int kRows, int kSteps>
__device__ __forceinline__ void Keep(const unsigned char* rows, uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    LoadBlocks4(SharedAddress(rows) + k / 4 * kRows * kBoxRowBytes + BlocksOffset<64>(k % 4), a[k]);
  }
}

// Calls fn(n, h, column) for a lane's sums of a product [64, 2 kCount]: d[n] is of row lane / 4 + 8
// h of the warp.
template <int kCount, typename Fn>
__device__ __forceinline__ void ForEachSum(const Fn& fn) {
  const int lane_column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kCount; ++n) fn(n, n / 2 % 2, n / 4 * 8 + lane_column + n % 2);
}

// Rows from `first` on of a tile of kBoxes boxes of kRows rows become 0; by a warpgroup, whose
// products and copies see it afterwards.
template <int kRows, int kBoxes>
__device__ __forceinline__ void ZeroRows(unsigned char* tile, int first) {
  for (int i = first * 8 + static_cast<int>(threadIdx.x) % 128; i < kRows * 8; i += 128) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      reinterpret_cast<uint4*>(tile + box * kRows * kBoxRowBytes)[i] = uint4{0, 0, 0, 0};
    }
  }
}
__device__ __forceinline__ void PublishRows(int group) {
  PublishToCopies();
  MeetAt(kGroupBarrier + group, 128);
}

// Where the rows of a result go: row r is head r % heads of token r / heads.
struct RowTarget {
  bf16* data;  // of row 0
  int64_t stride;
  int heads, tokens;  // tokens from this one on are not written
  unsigned reciprocal;
  int dim;  // of a head: columns from this one on are not written
};
// Writes the warpgroup's sums times scale[h], by way of its 64 rows in boxes of kRows rows, which
// nobody else uses.
template <int kRows, int kCount>
__device__ __forceinline__ void StoreSums(const float (&d)[kCount], const float (&scale)[2],
                                          unsigned char* rows, int first_row,
                                          const RowTarget& target) {
  constexpr int kBoxes = kCount / 32;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kCount / 8; ++k) {
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = PackPair(d[8 * k + 2 * i] * scale[i % 2], d[8 * k + 2 * i + 1] * scale[i % 2]);
    }
    StoreBlocks4(SharedAddress(rows) + k / 4 * kRows * kBoxRowBytes + BlocksOffset<64>(k % 4), v[0],
                 v[1], v[2], v[3]);
  }
  __syncwarp();
  const int lane = threadIdx.x % kWarp, chunk = lane % 8;
#pragma unroll
  for (int pass = 0; pass < 4; ++pass) {
    const int row = static_cast<int>(threadIdx.x) % 128 / kWarp * 16 + pass * 4 + lane / 8;
    const int packed = first_row + row;
    const int token = static_cast<int>(static_cast<unsigned>(packed) * target.reciprocal >> 16);
    if (token >= target.tokens) continue;
    bf16* to = target.data + token * target.stride + (packed - token * target.heads) * target.dim +
               chunk * 8;
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      if (box * 64 + chunk * 8 >= target.dim) break;
      *reinterpret_cast<uint4*>(to + box * 64) = *reinterpret_cast<const uint4*>(
          rows + box * kRows * kBoxRowBytes + row * kBoxRowBytes + (chunk ^ (row & 7)) * 16);
    }
  }
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_PRODUCTS_CUH_
