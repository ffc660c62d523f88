// Tiles of 64 rows in shared memory, and the tensor core products of one warp over them.
//
// Every tile belongs to one document: rows past its end are zeros, never the next document's, so
// that nothing of one document reaches another, NaN included. A warp owns 16 rows of the left
// operand. Fragments are those of mma.sync.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"):
// with g = lane / 4 and t = lane % 4 an accumulator c[n] holds (row g, columns 8 n + 2 t, + 1) and
// (row g + 8, the same columns).
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_TILES_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_TILES_CUH_

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/documents.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kFlashTile = 64;
inline constexpr int kFlashThreads = 128;

template <int kDim>
inline constexpr int kTileBytes = kFlashTile* kDim* kBf16Bytes;

// A block keeps 64 rows of its own; tiles of the other side pass by: keys forward and for dQ, rows
// for dK and dV. Wide heads take half tiles, so that a block fits into 99 KiB, what compute
// capability 8.6 and 8.9 have, and two of them into a multiprocessor of 9.0.
template <int kDim>
inline constexpr int kPassingRows = kDim <= 128 ? kFlashTile : kFlashTile / 2;
template <int kDim>
inline constexpr int kPassingBytes = kPassingRows<kDim>* kDim* kBf16Bytes;

// Rows [begin, end) are a document, those from `first` on one tile of it.
struct DocumentTile {
  int begin, end, first;
};

// Document i owns the slots cu[i] / 64 + i .. cu[i + 1] / 64 + i: at least as many as it has tiles,
// known without a sum over documents. This many slots there are:
inline int64_t TileSlots(int64_t tokens, int64_t documents) {
  return tokens / kFlashTile + documents;
}
// A value that all lanes hold, so that the compiler knows it and keeps one copy per warp.
__device__ __forceinline__ int Uniform(int x) { return __shfl_sync(~0u, x, 0); }
__device__ __forceinline__ int WarpOfBlock() { return Uniform(threadIdx.x / kWarp); }

// The tile of a slot, last tile of a document first when `reversed`; first >= end where there is
// none, begin == tokens when no later slot has one either. All lanes call it.
__device__ __forceinline__ DocumentTile TileOfSlot(const int32_t* cu_seqlens, int documents,
                                                   int slot, bool reversed) {
  const int i =
      WarpLastAtMost(documents, slot, [&](int d) { return cu_seqlens[d] / kFlashTile + d; });
  const int begin = Uniform(cu_seqlens[i]), end = Uniform(cu_seqlens[i + 1]);
  int tile = slot - begin / kFlashTile - Uniform(i);
  const int tiles = (end - begin + kFlashTile - 1) / kFlashTile;
  if (reversed && tile < tiles) tile = tiles - 1 - tile;
  return {begin, end, begin + tile * kFlashTile};
}

// Byte offset of the 8 elements `chunk` of a row. The xor puts the same chunk of 8 rows in 8
// different groups of 4 banks.
template <int kDim>
__device__ __forceinline__ uint32_t TileOffset(int row, int chunk) {
  constexpr int kChunks = kDim / 8;
  static_assert(kChunks % 4 == 0);
  const int swizzle = kChunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  return static_cast<uint32_t>((row * kChunks + (chunk ^ swizzle)) * 16);
}

// Copies the rows `source`, `source + stride`, ... ; those from `rows` on and elements from `dim`
// on become 0. source is 16-byte aligned, stride and dim multiples of 8.
template <int kDim, int kTileRows = kFlashTile>
__device__ __forceinline__ void LoadTile(uint32_t tile, const bf16* source, int64_t stride,
                                         int rows, int dim) {
  constexpr int kChunks = kDim / 8, kRows = kFlashThreads / kChunks;  // rows at a time
  unsigned thread = threadIdx.x;
  // Read anew for every tile: with wide heads no register is free for what follows from it.
  if constexpr (kDim > 128) asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  const int chunk = thread % kChunks;
  int row = thread / kChunks;
  if (row >= kRows) return;
  const bf16* from = source + row * stride + chunk * 8;
  if (chunk * 8 >= dim) rows = 0;
#pragma unroll
  for (int pass = 0; pass < (kTileRows + kRows - 1) / kRows; ++pass) {
    if (kTileRows % kRows == 0 || row < kTileRows) {
      CopyAsync16(tile + TileOffset<kDim>(row, chunk), from, row < rows);
    }
    row += kRows;
    from += kRows * stride;
  }
}

// Left operand: rows row .. row + 15 of a tile, elements 16 k .. 16 k + 15.
template <int kDim>
__device__ __forceinline__ void LoadLeft(uint32_t (&a)[4], uint32_t tile, int row, int k) {
  const int lane = threadIdx.x % kWarp;
  LoadBlocks4(tile + TileOffset<kDim>(row + lane % 16, 2 * k + lane / 16), a);
}

// Left operand of the warp's rows, step k: from the fragments that it keeps, or, unless `kept` has
// all, from `tile`.
template <int kDim, int kSteps>
__device__ __forceinline__ void TakeLeft(const uint32_t (&kept)[kSteps][4], uint32_t tile, int k,
                                         uint32_t (&a)[4]) {
  if constexpr (kSteps == kDim / 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = kept[k][i];
  } else {
    LoadLeft<kDim>(a, tile, WarpOfBlock() * 16, k);
  }
}

// c[16, 8 kColumns] += left [16, kDim] times the tile's rows `row` on, transposed. `left(k)` gives
// the fragment of step k.
template <int kDim, int kColumns, typename Left>
__device__ __forceinline__ void MultiplyByRows(float (&c)[kColumns][4], const Left& left,
                                               uint32_t tile, int row) {
  const int lane = threadIdx.x % kWarp;
  const int lane_row = row + lane / 16 * 8 + lane % 8, lane_chunk = lane / 8 % 2;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t a[4];
    left(k, a);
#pragma unroll
    for (int n = 0; n < kColumns / 2; ++n) {
      uint32_t b[4];
      LoadBlocks4(tile + TileOffset<kDim>(lane_row + 16 * n, 2 * k + lane_chunk), b);
      MultiplyAdd(c[2 * n], a, b[0], b[1]);
      MultiplyAdd(c[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// c[16, kDim] += p [16, 8 kColumns], rounded to bfloat16, times the tile's rows `row` on.
template <int kDim, int kColumns>
__device__ __forceinline__ void MultiplyByTile(float (&c)[kDim / 8][4],
                                               const float (&p)[kColumns][4], uint32_t tile,
                                               int row) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int k = 0; k < kColumns / 2; ++k) {
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = p[2 * k + i / 2] + i % 2 * 2;
      const __nv_bfloat162 rounded = __floats2bfloat162_rn(pair[0], pair[1]);
      a[i] = reinterpret_cast<const uint32_t&>(rounded);
    }
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      LoadBlocks4Transposed(tile + TileOffset<kDim>(row + 16 * k + lane % 16, 2 * n + lane / 16),
                            b);
      MultiplyAdd(c[2 * n], a, b[0], b[1]);
      MultiplyAdd(c[2 * n + 1], a, b[2], b[3]);
    }
  }
}

template <int kColumns>
__device__ __forceinline__ void Zero(float (&c)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (float& x : c[n]) x = 0.0f;
  }
}

// Writes the warp's 16 rows of a result: row g times scale[0], row g + 8 times scale[1]. They pass
// through the warp's rows of `tile`, which no other warp reads. target is row 0 of the tile.
template <int kDim>
__device__ __forceinline__ void StoreRows(const float (&c)[kDim / 8][4], const float (&scale)[2],
                                          char* tile, bf16* target, int64_t stride, int rows,
                                          int dim) {
  constexpr int kChunks = kDim / 8;
  const int lane = threadIdx.x % kWarp, first = WarpOfBlock() * 16;
#pragma unroll
  for (int n = 0; n < kChunks; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      char* at = tile + TileOffset<kDim>(first + half * 8 + lane / 4, n) + lane % 4 * 4;
      *reinterpret_cast<__nv_bfloat162*>(at) =
          __floats2bfloat162_rn(c[n][2 * half] * scale[half], c[n][2 * half + 1] * scale[half]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int pass = 0; pass < 16 * kChunks / kWarp; ++pass) {
    const int i = pass * kWarp + lane, row = first + i / kChunks, chunk = i % kChunks;
    if (row < rows && chunk * 8 < dim) {
      *reinterpret_cast<uint4*>(target + row * stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(tile + TileOffset<kDim>(row, chunk));
    }
  }
}

// Sum and maximum over the four lanes that share a row.
__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_TILES_CUH_
