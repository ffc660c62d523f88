// gate_up = x W^T and y = silu(gate) up in one launch.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
//
// product_tiles.cuh with tiles of 128 rows by 128 columns of gate and the same 128 columns of up, so
// that a thread holds both factors of its elements of y. What follows a tile runs while the other
// warpgroup multiplies: gate and up are rounded and y is computed from the rounded values by the
// function of swiglu.cu, 64 columns at a time; a warp puts its part of such a piece into shared
// memory, and a thread of warpgroup 0 stores the piece of all four warps by the copy engine.
// Bytes: x and W once from the L2 cache's point of view, 6 per element of y written. Bitwise
// deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/fused_gated_linear.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product_tiles.cuh"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kStages = 4;
constexpr int kSlots = 2;            // pieces of a warpgroup in shared memory
constexpr int kHalf = 64;            // columns of a piece
constexpr int kGatedColumns = 128;   // of gate, and of up

struct ForwardMaps {
  TensorMap x, gate_weight, up_weight, gate, up, y;
};

struct alignas(1024) ForwardShared {
  unsigned char stages[kStages][kStageBytes];
  unsigned char pieces[2][kSlots][kBoxBytes];
  ProductPipeline<kStages> pipeline;
  uint64_t written[2][kSlots];  // the piece is complete
  uint64_t stored[2][kSlots];   // and has been read
};
// Dynamic shared memory starts at a multiple of 16.
constexpr int kSharedBytes = sizeof(ForwardShared) + 1024;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Puts the pieces of one warpgroup, one after the other, into its slots.
class PieceWriter {
 public:
  __device__ __forceinline__ PieceWriter(ForwardShared* shared, int half)
      : shared_(shared), half_(half) {
    const unsigned lane = threadIdx.x % 32;
    // Rows 0-7 and 8-15 of the warp, then the same of the next 8 columns.
    row_ = threadIdx.x % 128 / 32 * 16 + (lane >> 3 & 1) * 8 + (lane & 7);
    chunk_ = lane >> 4;
  }
  // values[2 j + h]: columns 8 j + 2 (l % 4) and the next one, rows l / 4 + 8 h.
  __device__ __forceinline__ void Write(const uint32_t (&values)[16]) {
    const int slot = count_ % kSlots;
    WaitForOwnPhase(&shared_->stored[half_][slot], (count_ / kSlots & 1) ^ 1);
    const unsigned row = SharedAddress(shared_->pieces[half_][slot]) + row_ * 128;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      StoreBlocks4(row + (((2 * p + chunk_) ^ (row_ & 7)) << 4), values[4 * p], values[4 * p + 1],
                   values[4 * p + 2], values[4 * p + 3]);
    }
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_][slot]);
    ++count_;
  }

 private:
  ForwardShared* shared_;
  int half_;
  unsigned row_, chunk_, count_ = 0;
};

// 64 columns of gate and up, sums[4 (8 h + j) + ...] of a tile.
template <int kWhich>
__device__ __forceinline__ void Finish(const float (&sums)[128], bool wants_y,
                                       PieceWriter* writer) {
  uint32_t gates[16], ups[16], ys[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    constexpr int kGate = kWhich * 32, kUp = 64 + kWhich * 32;
    gates[i] = PackPair(sums[kGate + 2 * i], sums[kGate + 2 * i + 1]);
    ups[i] = PackPair(sums[kUp + 2 * i], sums[kUp + 2 * i + 1]);
  }
  writer->Write(gates);
  if (wants_y) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      ys[i] = PackPair(Low(ups[i]) * Silu::Value(Low(gates[i])),
                       High(ups[i]) * Silu::Value(High(gates[i])));
    }
  }
  writer->Write(ups);
  if (wants_y) writer->Write(ys);
}

// By one thread for each warpgroup that multiplies.
__device__ __forceinline__ void StorePieces(const ForwardMaps& maps, const TileGrid& grid,
                                            bool wants_y, ForwardShared* shared, int half) {
  unsigned count = 0;
  ForTiles(grid, [&](const Tile& tile) {
    for (int which = 0; which < 2; ++which) {
      for (int kind = 0; kind < (wants_y ? 3 : 2); ++kind) {
        const unsigned slot = count % kSlots;
        WaitForOwnPhase(&shared->written[half][slot], count / kSlots & 1);
        StoreBox(kind == 0 ? maps.gate : kind == 1 ? maps.up : maps.y,
                 tile.column * kGatedColumns + which * kHalf, tile.row * kTileRows + half * 64,
                 shared->pieces[half][slot]);
        CloseGroup();
        WaitUntilRead<0>();
        Arrive(&shared->stored[half][slot]);
        ++count;
      }
    }
  });
  WaitUntilWritten();
}

__device__ __forceinline__ void LoadStages(const ForwardMaps& maps, const TileGrid& grid,
                                           ForwardShared* shared) {
  const bool first = ClusterRank() == 0;
  const TensorMap& weight = first ? maps.gate_weight : maps.up_weight;
  const unsigned offset = kFirstBytes + (first ? 0 : kSecondBytes / 2);
  LoadOperands(grid, &shared->pipeline, shared->stages[0],
               [&](const Tile& tile, int k, unsigned char* stage, uint64_t* barrier) {
                 LoadBox(stage, maps.x, k * kTileDepth, tile.row * kTileRows, barrier);
                 LoadBoxForAll(stage + offset, weight, k * kTileDepth,
                               tile.column * kGatedColumns, barrier, 3);
               });
}

template <int kLag>
__device__ __forceinline__ void MultiplyTiles(const TileGrid& grid, bool wants_y,
                                              ForwardShared* shared, int half) {
  Multiplier<false, kStages, kLag> multiplier(grid, &shared->pipeline, shared->stages[0], half);
  PieceWriter writer(shared, half);
  float sums[128];
  ForTiles(grid, [&](const Tile&) {
    multiplier.Run(sums);
    Finish<0>(sums, wants_y, &writer);
    Finish<1>(sums, wants_y, &writer);
  });
}

__device__ __forceinline__ void InitForward(ForwardShared* shared) {
  shared->pipeline.Init();
  for (int half = 0; half < 2; ++half) {
    for (int slot = 0; slot < kSlots; ++slot) {
      InitBarrier(&shared->written[half][slot], 4);
      InitBarrier(&shared->stored[half][slot]);
    }
  }
  PublishBarriers();
}

#endif

template <int kLag>
__global__ void __launch_bounds__(kProductThreads, 1)
    FusedGatedForwardKernel(const __grid_constant__ ForwardMaps maps, TileGrid grid, bool wants_y) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared = reinterpret_cast<ForwardShared*>(
      dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitForward(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStages(maps, grid, shared);
    if (threadIdx.x == 32) StorePieces(maps, grid, wants_y, shared, 0);
    if (threadIdx.x == 64) StorePieces(maps, grid, wants_y, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyTiles<kLag>(grid, wants_y, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

}  // namespace

void FusedGatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream, int variant) {
  const int64_t h = args.spec.hidden, n = args.spec.intermediate;
  const auto* weight = static_cast<const bf16*>(args.weight);
  auto* gate_up = static_cast<bf16*>(args.gate_up);
  const auto output = [&](const void* data, int64_t stride) {
    return MakeTensorMap({data, args.rows, n, stride, 64, kHalf});
  };
  const ForwardMaps maps{
      .x = MakeTensorMap({args.x, args.rows, h, h, kTileRows, kTileDepth}),
      .gate_weight = MakeTensorMap({weight, n, h, h, kGatedColumns, kTileDepth}),
      .up_weight = MakeTensorMap({weight + n * h, n, h, h, kGatedColumns, kTileDepth}),
      .gate = output(gate_up, 2 * n),
      .up = output(gate_up + n, 2 * n),
      .y = output(args.y != nullptr ? args.y : gate_up, n)};
  TileGrid grid = MakeTileGrid(args.rows, n, h, kGatedColumns);
  if (variant / 10 > 0) grid.group = variant / 10;
  const auto launch = [&](auto kernel) {
    LaunchProduct(kernel, kSharedBytes, grid, Handle(stream), "GatedLinearForward", maps, grid,
                  args.y != nullptr);
  };
  if (variant % 10 == 0) launch(FusedGatedForwardKernel<0>);
  if (variant % 10 == 2) launch(FusedGatedForwardKernel<2>);
  if (variant % 10 == 3) launch(FusedGatedForwardKernel<3>);
}

}  // namespace coxswain::kernels::cuda
