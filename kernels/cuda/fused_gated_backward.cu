// dy = dout V and, in place of gate and up, dgate = dy up silu'(gate), dup = dy silu(gate); where
// wanted y = silu(gate) up. One launch; dy, rounded, stays in registers.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
//
// product_tiles.cuh with tiles of 128 x 256 of dy. A thread of warpgroup 0 for each of the other
// two keeps the next 4 chunks (32 columns of 64 rows) of gate and up in shared memory, the rest of
// a tile in the L2 cache. What follows a tile goes chunk by chunk: a warp replaces its part of gate
// and up by the gradient, by the function of swiglu.cu, and the thread stores the chunk by the copy
// engine and refills its place. Bytes: 8 per element of dy, 10 with y, besides the operands.
// Bitwise deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/fused_gated_linear.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product_tiles.cuh"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kStages = 3;
constexpr int kChunks = kTileColumns / kChunkColumns;  // of a tile
constexpr int kSlots = 4;                              // chunks of a warpgroup in shared memory
constexpr int kOutputSlots = 2;

struct BackwardMaps {
  TensorMap dout, weight, gate, up, y;
};

struct alignas(1024) BackwardShared {
  unsigned char stages[kStages][kStageBytes];
  unsigned char gates[2][kSlots][kChunkBytes];
  unsigned char ups[2][kSlots][kChunkBytes];
  unsigned char ys[2][kOutputSlots][kChunkBytes];
  ProductPipeline<kStages> pipeline;
  uint64_t loaded[2][kSlots];
  uint64_t written[2][kSlots];         // the chunk has become its gradient
  uint64_t y_stored[2][kOutputSlots];  // its y has been read
};
// Dynamic shared memory starts at a multiple of 16.
constexpr int kSharedBytes = sizeof(BackwardShared) + 1024;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Moves the chunks of one of the warpgroups that multiply: one thread.
class ChunkMover {
 public:
  __device__ __forceinline__ ChunkMover(const BackwardMaps& maps, const TileGrid& grid,
                                        bool wants_y, BackwardShared* shared, int half)
      : maps_(maps), shared_(shared), half_(half), wants_y_(wants_y) {
    Run(grid);
  }

 private:
  __device__ __forceinline__ void Run(const TileGrid& grid) {
    Tile before{-1, 0};
    ForTiles(grid, [&](const Tile& tile) {
      if (before.row >= 0) {
        Pass(before, &tile);
      } else {
        for (int c = 0; c < kSlots; ++c) Load(tile, c);
      }
      before = tile;
    });
    if (before.row >= 0) Pass(before, nullptr);
    WaitUntilWritten();
  }
  __device__ __forceinline__ int Column(const Tile& tile, int chunk) const {
    return tile.column * kTileColumns + chunk * kChunkColumns;
  }
  __device__ __forceinline__ int Row(const Tile& tile) const {
    return tile.row * kTileRows + half_ * 64;
  }
  __device__ __forceinline__ void Load(const Tile& tile, int chunk) {
    const int slot = chunk % kSlots;
    uint64_t* barrier = &shared_->loaded[half_][slot];
    ExpectBytes(barrier, 2 * kChunkBytes);
    LoadBox(shared_->gates[half_][slot], maps_.gate, Column(tile, chunk), Row(tile), barrier);
    LoadBox(shared_->ups[half_][slot], maps_.up, Column(tile, chunk), Row(tile), barrier);
    if (chunk < kChunks - kSlots) {
      PrefetchBox(maps_.gate, Column(tile, chunk + kSlots), Row(tile));
      PrefetchBox(maps_.up, Column(tile, chunk + kSlots), Row(tile));
    }
  }
  // Chunk `chunk` has been read: its place takes the one kSlots further on.
  __device__ __forceinline__ void Refill(const Tile& tile, const Tile* next, int chunk) {
    if (wants_y_) Arrive(&shared_->y_stored[half_][chunk % kOutputSlots]);
    if (chunk + kSlots < kChunks) {
      Load(tile, chunk + kSlots);
    } else if (next != nullptr) {
      Load(*next, chunk + kSlots - kChunks);
    }
  }
  __device__ __forceinline__ void Pass(const Tile& tile, const Tile* next) {
    for (int c = 0; c < kChunks; ++c) {
      const int slot = c % kSlots;
      WaitForOwnPhase(&shared_->written[half_][slot], c / kSlots & 1);
      StoreBox(maps_.gate, Column(tile, c), Row(tile), shared_->gates[half_][slot]);
      StoreBox(maps_.up, Column(tile, c), Row(tile), shared_->ups[half_][slot]);
      if (wants_y_) {
        StoreBox(maps_.y, Column(tile, c), Row(tile), shared_->ys[half_][c % kOutputSlots]);
      }
      CloseGroup();
      WaitUntilRead<1>();
      if (c > 0) Refill(tile, next, c - 1);
    }
    WaitUntilRead<0>();
    Refill(tile, next, kChunks - 1);
  }

  const BackwardMaps& maps_;
  BackwardShared* shared_;
  int half_;
  bool wants_y_;
};

__device__ __forceinline__ void LoadStages(const BackwardMaps& maps, const TileGrid& grid,
                                           BackwardShared* shared) {
  const int first = static_cast<int>(ClusterRank()) * 2;  // of its two boxes of 64 columns
  LoadOperands(grid, &shared->pipeline, shared->stages[0],
               [&](const Tile& tile, int k, unsigned char* stage, uint64_t* barrier) {
                 LoadBox(stage, maps.dout, k * kTileDepth, tile.row * kTileRows, barrier);
                 for (int box = first; box < first + 2; ++box) {
                   LoadBoxForAll(stage + kFirstBytes + box * kSecondBytes / 4, maps.weight,
                                 tile.column * kTileColumns + box * 64, k * kTileDepth, barrier, 3);
                 }
               });
}

// 16 columns of 16 rows of gate and up, at the addresses of this lane, become their gradient under
// dy; y is stored at its address.
__device__ __forceinline__ void Replace(const uint32_t* dys, unsigned gate_at, unsigned up_at,
                                        unsigned y_at, bool wants_y) {
  uint32_t gates[4], ups[4], ys[4];
  LoadBlocks4(gate_at, gates);
  LoadBlocks4(up_at, ups);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float low = Low(dys[i]), high = High(dys[i]);
    float low_gate = Low(gates[i]), low_up = Low(ups[i]);
    float high_gate = High(gates[i]), high_up = High(ups[i]);
    GluGradient<Silu>(&low, &low_gate, &low_up);
    GluGradient<Silu>(&high, &high_gate, &high_up);
    gates[i] = PackPair(low_gate, high_gate);
    ups[i] = PackPair(low_up, high_up);
    ys[i] = PackPair(low, high);
  }
  StoreBlocks4(gate_at, gates[0], gates[1], gates[2], gates[3]);
  StoreBlocks4(up_at, ups[0], ups[1], ups[2], ups[3]);
  if (wants_y) StoreBlocks4(y_at, ys[0], ys[1], ys[2], ys[3]);
}

__device__ __forceinline__ void MultiplyTiles(const TileGrid& grid, bool wants_y,
                                              BackwardShared* shared, int half) {
  const unsigned at[2] = {ChunkOffset(0), ChunkOffset(1)};
  Multiplier<true, kStages> multiplier(&shared->pipeline, shared->stages[0], half);
  multiplier.Run<kChunks>(grid, [&](int c, const uint32_t(&tile)[64]) {
    const int slot = c % kSlots, y_slot = c % kOutputSlots;
    WaitForOwnPhase(&shared->loaded[half][slot], c / kSlots & 1);
    if (wants_y) WaitForOwnPhase(&shared->y_stored[half][y_slot], (c / kOutputSlots & 1) ^ 1);
    const unsigned gates = SharedAddress(shared->gates[half][slot]);
    const unsigned ups = SharedAddress(shared->ups[half][slot]);
    const unsigned ys = SharedAddress(shared->ys[half][y_slot]);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      Replace(&tile[8 * c + 4 * p], gates + at[p], ups + at[p], ys + at[p], wants_y);
    }
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared->written[half][slot]);
  });
}

__device__ __forceinline__ void InitBackward(BackwardShared* shared) {
  shared->pipeline.Init();
  for (int half = 0; half < 2; ++half) {
    for (int slot = 0; slot < kSlots; ++slot) {
      InitBarrier(&shared->loaded[half][slot]);
      InitBarrier(&shared->written[half][slot], 4);
    }
    for (int slot = 0; slot < kOutputSlots; ++slot) InitBarrier(&shared->y_stored[half][slot]);
  }
  PublishBarriers();
}

#endif

__global__ void __launch_bounds__(kProductThreads, 1)
    FusedGatedBackwardKernel(const __grid_constant__ BackwardMaps maps, TileGrid grid,
                             bool wants_y) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<BackwardShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitBackward(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStages(maps, grid, shared);
    if (threadIdx.x == 32) ChunkMover(maps, grid, wants_y, shared, 0);
    if (threadIdx.x == 64) ChunkMover(maps, grid, wants_y, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyTiles(grid, wants_y, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#elif __CUDA_ARCH__ == 900
#error "the kernels of compute capability 9.0 are compiled for 90a"
#endif
}

}  // namespace

void FusedGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  const int64_t h = args.spec.hidden, n = args.spec.intermediate;
  auto* gate_up = static_cast<bf16*>(args.gate_up);
  const auto chunks = [&](const void* data, int64_t stride) {
    return MakeTensorMap({data, args.rows, n, stride, 64, kChunkColumns});
  };
  const BackwardMaps maps{
      .dout = MakeTensorMap({args.dout, args.rows, h, h, kTileRows, kTileDepth}),
      .weight = MakeTensorMap({args.weight, h, n, n, kTileDepth, 64}),
      .gate = chunks(gate_up, 2 * n),
      .up = chunks(gate_up + n, 2 * n),
      .y = chunks(args.y, n)};
  const TileGrid grid = MakeTileGrid(args.rows, n, h, kTileColumns);
  LaunchProduct(FusedGatedBackwardKernel, kSharedBytes, grid, Handle(stream), "GatedLinearBackward",
                maps, grid, args.wants_y);
}

}  // namespace coxswain::kernels::cuda
