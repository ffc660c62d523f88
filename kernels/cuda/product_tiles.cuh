// Tiles of a product in bfloat16 with float32 sums on the tensor cores of compute capability 9.0a,
// for kernels that use a tile where it is made.
//
// A block computes tiles of 128 x 256: warpgroup 1 the upper 64 rows, warpgroup 2 the lower ones,
// in 128 registers of each thread. One thread of warpgroup 0 brings operands, 64 values of k at a
// time, into a ring of stages; the rest of that warpgroup is free to move what the kernel does with
// tiles. Two blocks are a cluster whose tiles lie below each other: each brings its own rows of the
// first operand and one half of the second operand for both, so that a stage costs 32 KiB of L2
// reads.
//
// A warpgroup keeps a finished tile, rounded, in 64 more registers and works on it in slices, one
// after each step of the next tile's product is under way: the tensor cores do not wait for it.
//
// The grid is as many clusters as run at once. Clusters take the tiles in turns, in an order that
// sweeps the columns for a group of row tiles, so that operands come from the L2 cache.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCT_TILES_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCT_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/tma.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kTileRows = 128;
inline constexpr int kTileColumns = 256;
inline constexpr int kTileDepth = 64;
inline constexpr int kProductCluster = 2;
inline constexpr int kProductThreads = 384;
inline constexpr unsigned kFirstBytes = kTileRows * kTileDepth * 2;
inline constexpr unsigned kSecondBytes = kTileColumns * kTileDepth * 2;
inline constexpr unsigned kStageBytes = kFirstBytes + kSecondBytes;
// What a warpgroup does with a tile goes by chunks of 32 columns of its 64 rows.
inline constexpr int kChunkColumns = 32;
inline constexpr unsigned kChunkBytes = 64 * kChunkColumns * 2;

struct TileGrid {
  int row_tiles = 0;  // of a cluster: 256 rows each
  int column_tiles = 0;
  int group = 0;  // row tiles that the columns are swept for
  int k_steps = 0;
};

// Of a block, in tiles.
struct Tile {
  int row, column;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Calls use(tile) for every tile of this block.
template <typename Use>
__device__ __forceinline__ void ForTiles(const TileGrid& grid, const Use& use) {
  const int rank = static_cast<int>(ClusterRank());
  const int count = grid.row_tiles * grid.column_tiles,
            group_tiles = grid.group * grid.column_tiles;
  for (int i = static_cast<int>(blockIdx.x) / kProductCluster; i < count;
       i += static_cast<int>(gridDim.x) / kProductCluster) {
    const int first = i / group_tiles * grid.group, within = i % group_tiles;
    const int height = min(grid.group, grid.row_tiles - first);
    use(Tile{(first + within % height) * kProductCluster + rank, within / height});
  }
}

template <int kStages>
struct ProductPipeline {
  uint64_t full[kStages];   // the stage's operands are here
  uint64_t empty[kStages];  // both blocks have multiplied them

  // By one thread.
  __device__ void Init() {
    for (int s = 0; s < kStages; ++s) {
      InitBarrier(&full[s]);
      InitBarrier(&empty[s], 2 * 4 * kProductCluster);  // a warp each
    }
  }
};

// Where a thread is in the ring.
template <int kStages>
struct RingPlace {
  int stage = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// By one thread: load(tile, k step, stage, barrier) starts the copies of all kStageBytes.
template <int kStages, typename Load>
__device__ __forceinline__ void LoadOperands(const TileGrid& grid,
                                             ProductPipeline<kStages>* pipeline,
                                             unsigned char* stages, const Load& load) {
  RingPlace<kStages> place;
  ForTiles(grid, [&](const Tile& tile) {
    for (int k = 0; k < grid.k_steps; ++k) {
      WaitForOwnPhase(&pipeline->empty[place.stage], place.phase ^ 1);
      ExpectBytes(&pipeline->full[place.stage], kStageBytes);
      load(tile, k, stages + place.stage * kStageBytes, &pipeline->full[place.stage]);
      place.Advance();
    }
  });
}

// Two neighbours of a row: the lower column in the lower half.
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Where a lane finds its row of four 8x8 blocks (mma.cuh) in a chunk: rows 0-7 and 8-15 of the
// warp, then the same of the next 8 columns; `pair` 0 is the first 16 columns of the chunk.
__device__ __forceinline__ unsigned ChunkOffset(unsigned pair) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned row = threadIdx.x % 128 / 32 * 16 + (lane >> 3 & 1) * 8 + (lane & 7);
  return row * 64 + ((2 * pair + (lane >> 4)) ^ (row >> 1 & 3)) * 16;
}

// One of the two warpgroups that multiply.
template <bool kAcross, int kStages>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(ProductPipeline<kStages>* pipeline,
                                        const unsigned char* stages, int half)
      : pipeline_(pipeline),
        a_(RowsAlongK(stages + half * 64 * kTileDepth * 2)),
        b_(kAcross ? RowsAcrossK(stages + kFirstBytes) : RowsAlongK(stages + kFirstBytes)) {}

  // At least kSlices steps of k. Calls finish(s, tile), s = 0, ..., kSlices - 1, for every tile
  // [64, 256] of this warpgroup: tile[2 j + h] holds the pair of rows and columns that Multiply
  // names for 4 j + 2 h, rounded.
  template <int kSlices, typename Finish>
  __device__ __forceinline__ void Run(const TileGrid& grid, const Finish& finish) {
    float sums[128];
    uint32_t tile[64];
    const int clusters = static_cast<int>(gridDim.x) / kProductCluster;
    int left = (grid.row_tiles * grid.column_tiles + clusters - 1 -
                static_cast<int>(blockIdx.x) / kProductCluster) /
               clusters;
    if (left == 0) return;
    for (bool held = false; left > 0; --left) {
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        Step(sums, s);
        if (held) finish(s, tile);
      }
      for (int k = kSlices; k < grid.k_steps; ++k) Step(sums, k);
      held = true;
      WaitForProducts<0>();
      Release(previous_);
#pragma unroll
      for (int i = 0; i < 64; ++i) tile[i] = PackPair(sums[2 * i], sums[2 * i + 1]);
    }
#pragma unroll
    for (int s = 0; s < kSlices; ++s) finish(s, tile);
  }

 private:
  __device__ __forceinline__ void Step(float (&sums)[128], int k) {
    constexpr uint64_t kStep = kAcross ? kStepAcrossK : kStepAlongK;
    WaitForOwnPhase(&pipeline_->full[place_.stage], place_.phase);
    BeginProducts();
    const uint64_t offset = place_.stage * uint64_t{kStageBytes >> 4};
#pragma unroll
    for (int i = 0; i < kTileDepth / 16; ++i) {
      Multiply<kAcross>(sums, a_ + offset + i * kStepAlongK, b_ + offset + i * kStep,
                        k > 0 || i > 0);
    }
    CommitProducts();
    WaitForProducts<1>();
    if (k > 0) Release(previous_);
    previous_ = place_.stage;
    place_.Advance();
  }
  __device__ __forceinline__ void Release(int stage) {
    const unsigned lane = threadIdx.x % 32;
    if (lane < kProductCluster) ArriveAt(&pipeline_->empty[stage], lane);
  }

  ProductPipeline<kStages>* pipeline_;
  uint64_t a_, b_;
  RingPlace<kStages> place_;
  int previous_ = 0;
};

#endif

inline TileGrid MakeTileGrid(int64_t rows, int64_t columns, int64_t depth, int tile_columns) {
  return {.row_tiles = static_cast<int>(CeilDiv(rows, kTileRows * kProductCluster)),
          .column_tiles = static_cast<int>(CeilDiv(columns, tile_columns)),
          .group = 16,
          .k_steps = static_cast<int>(CeilDiv(depth, kTileDepth))};
}

// As many clusters as run at once, or as there are tiles.
template <typename Kernel, typename... Args>
void LaunchProduct(Kernel kernel, int shared_bytes, const TileGrid& grid, cudaStream_t stream,
                   const char* op, const Args&... args) {
  CheckCuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
            op);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kProductCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(Multiprocessors() / kProductCluster * kProductCluster));
  config.blockDim = dim3(kProductThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int resident = 0;
  CheckCuda(cudaOccupancyMaxActiveClusters(&resident, kernel, &config), op);
  const int clusters = std::min(grid.row_tiles * grid.column_tiles, std::max(resident, 1));
  config.gridDim = dim3(static_cast<unsigned>(clusters * kProductCluster));
  CheckCuda(cudaLaunchKernelEx(&config, kernel, args...), op);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCT_TILES_CUH_
