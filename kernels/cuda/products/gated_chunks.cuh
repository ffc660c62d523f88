// Tiles of product_tiles.cuh that hold 128 columns of gate and the same 128 of up, and how gate, up
// and y of them leave by chunks of 32 columns, through shared memory, by the copy engine.
//
// Barriers: written[w] counts the four warps of warpgroup w, stored[w] the thread that stores.
// Chunk n ends phase n of both; a chunk is written once the one before has been read.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_GATED_CHUNKS_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_GATED_CHUNKS_CUH_

#include "kernels/cuda/products/product_tiles.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kGatedStages = 4;
inline constexpr int kGatedDepth = 64;
inline constexpr int kGatedColumns = 128;  // of gate, and of up
// Of a warpgroup's rows.
inline constexpr int kGatedChunkColumns = 32;
inline constexpr unsigned kGatedChunkBytes = 64 * kGatedChunkColumns * kBf16Bytes;
inline constexpr int kGatedChunks = kGatedColumns / kGatedChunkColumns;
static_assert(2 * kGatedColumns == kTileColumns);
static_assert(kGatedChunkColumns % 16 == 0 && kGatedColumns % kGatedChunkColumns == 0);
// Parities are those of the chunk within its tile, not of the count of all chunks: the two agree
// when each tile takes an even number of phases.
static_assert(kGatedChunks % 2 == 0);

struct alignas(1024) GatedShared {
  Operands<kGatedStages, kGatedDepth> operands;
  unsigned char chunks[2][3][kGatedChunkBytes];  // gate, up and y of each warpgroup
  OperandBarriers<kGatedStages> barriers;
  uint64_t written[2];  // a chunk is complete
  uint64_t stored[2];   // and has been read
};
// Dynamic shared memory starts at a multiple of 16.
inline constexpr int kGatedSharedBytes = sizeof(GatedShared) + 1024;
static_assert(kGatedSharedBytes <= 227 * 1024);

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread.
__device__ __forceinline__ void InitGated(GatedShared* shared) {
  InitOperandBarriers(&shared->barriers);
  for (int half = 0; half < 2; ++half) {
    InitBarrier(&shared->written[half], 4);
    InitBarrier(&shared->stored[half]);
  }
  PublishBarriers();
}

#endif

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_GATED_CHUNKS_CUH_
