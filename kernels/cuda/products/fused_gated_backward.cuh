// dy = dout V, with an adapter dout V + g A, and, in place of gate and up, dgate = dy up
// act'(gate), dup = dy act(gate); where wanted y = act(gate) up. act is an Activation of glu.cuh.
// One launch; dy, rounded, stays in registers. Source: Shazeer, "GLU Variants Improve Transformer",
// 2020; Hu et al., "LoRA", 2021.
//
// product_tiles.cuh with tiles of 128 x 256 of dy, in stages of 32 values of k: short ones hide the
// latency of the L2 cache, which gate and up keep busy, with less shared memory. A thread of
// warpgroup 0 for each of the other two keeps the next 2 chunks (64 columns of 64 rows) of gate and
// up in shared memory. A warp replaces its part of them by the gradient, 16 columns a slice, by the
// function of swiglu.cu or geglu.cu; the thread stores the chunk by the copy engine and refills its
// place.
// Bytes: 8 per element of dy, 10 with y, besides the operands. Bitwise deterministic: a sum
// runs over k in order, in one warpgroup.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_BACKWARD_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_BACKWARD_CUH_

#include <type_traits>

#include "kernels/cuda/activations/gelu.cuh"
#include "kernels/cuda/activations/glu.cuh"
#include "kernels/cuda/products/fused_gated_linear.h"
#include "kernels/cuda/products/product_tiles.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda::fused_gated_backward {

inline constexpr int kStages = 6;
inline constexpr int kDepth = 32;
// What follows a tile goes by chunks of a warpgroup's rows.
inline constexpr int kChunkColumns = 64;
inline constexpr unsigned kChunkBytes = 64 * kChunkColumns * kBf16Bytes;
inline constexpr int kChunks = kTileColumns / kChunkColumns;  // of a tile
inline constexpr int kSlots = 2;  // chunks of a warpgroup in shared memory
static_assert(kChunkColumns % 16 == 0 && kTileColumns % kChunkColumns == 0);
// Chunk c of every tile lies in slot c mod kSlots, and the first kSlots of the next tile are loaded
// where the last ones of this tile were.
static_assert(kSlots <= kChunks && kChunks % kSlots == 0);
// The parities of `loaded` and `written` are those of a slot's use within its tile, not of all its
// uses, and that of `y_stored` is of the chunk: they agree when each tile takes an even number of
// phases.
static_assert(kChunks / kSlots % 2 == 0 && kChunks % 2 == 0);

struct BackwardMaps {
  TensorMap dout, weight, gate, up, y;
};

// The adapter as terms of product_tiles.cuh.
struct BackwardAdapter {
  TensorMap g, a;
  int rank;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const Tile&) const { return Columns::kAll; }
  template <typename Add>
  __device__ __forceinline__ void ForAdded(const Tile&, const Add& add) const {
    ForRank<kDepth>(0, rank, add);
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    LoadBox(left, g, step.k, tile.row * kTileRows, barrier);
    LoadAcross<kDepth>(right, a, step.k, tile.column * kTileColumns, Columns::kAll, barrier);
  }
#endif
};

struct alignas(1024) BackwardShared {
  Operands<kStages, kDepth> operands;
  unsigned char gates[2][kSlots][kChunkBytes];
  unsigned char ups[2][kSlots][kChunkBytes];
  unsigned char ys[2][kChunkBytes];
  OperandBarriers<kStages> barriers;
  uint64_t loaded[2][kSlots];
  uint64_t written[2][kSlots];  // the chunk has become its gradient
  uint64_t y_stored[2];         // its y has been read
};
// Dynamic shared memory starts at a multiple of 16.
inline constexpr int kSharedBytes = sizeof(BackwardShared) + 1024;

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
  }
  __device__ __forceinline__ void Pass(const Tile& tile, const Tile* next) {
    for (int c = 0; c < kChunks; ++c) {
      const int slot = c % kSlots;
      WaitForOwnPhase(&shared_->written[half_][slot], c / kSlots & 1);
      StoreBox(maps_.gate, Column(tile, c), Row(tile), shared_->gates[half_][slot]);
      StoreBox(maps_.up, Column(tile, c), Row(tile), shared_->ups[half_][slot]);
      if (wants_y_) StoreBox(maps_.y, Column(tile, c), Row(tile), shared_->ys[half_]);
      CloseGroup();
      WaitUntilRead<0>();
      if (wants_y_) Arrive(&shared_->y_stored[half_]);
      if (c + kSlots < kChunks) {
        Load(tile, c + kSlots);
      } else if (next != nullptr) {
        Load(*next, c + kSlots - kChunks);
      }
    }
  }

  const BackwardMaps& maps_;
  BackwardShared* shared_;
  int half_;
  bool wants_y_;
};

template <typename Terms>
__device__ __forceinline__ void LoadStages(const BackwardMaps& maps, const TileGrid& grid,
                                           const Terms& terms, BackwardShared* shared) {
  LoadOperands(grid, terms, &shared->operands, &shared->barriers,
               [&](const Tile& tile, int k, void* dout, unsigned char* weights, uint64_t* barrier) {
                 LoadBox(dout, maps.dout, k, tile.row * kTileRows, barrier);
                 LoadAcross<kDepth>(weights, maps.weight, k, tile.column * kTileColumns,
                                    Columns::kAll, barrier);
               });
}

// What a warpgroup does with a tile of dy: 16 columns a slice.
template <typename Activation>
class Backward {
 public:
  static constexpr int kParts = kChunks, kSlices = kChunkColumns / 16;

  __device__ __forceinline__ Backward(BackwardShared* shared, int half, bool wants_y)
      : shared_(shared), half_(half), wants_y_(wants_y) {
#pragma unroll
    for (int s = 0; s < kSlices; ++s) at_[s] = BlocksOffset<kChunkColumns>(s);
  }
  __device__ __forceinline__ void Fetch(int chunk, int s) {
    const int slot = chunk % kSlots;
    if (s == 0) WaitForOwnPhase(&shared_->loaded[half_][slot], chunk / kSlots & 1);
    LoadBlocks4(SharedAddress(shared_->gates[half_][slot]) + at_[s], gates_);
    LoadBlocks4(SharedAddress(shared_->ups[half_][slot]) + at_[s], ups_);
  }
  __device__ __forceinline__ void Finish(int chunk, int s, const uint32_t (&tile)[64]) {
    const int slot = chunk % kSlots;
    const unsigned at = at_[s];
    uint32_t ys[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) Replace(tile[4 * s + i], &gates_[i], &ups_[i], &ys[i]);
    const unsigned gate_at = SharedAddress(shared_->gates[half_][slot]) + at;
    const unsigned up_at = SharedAddress(shared_->ups[half_][slot]) + at;
    StoreBlocks4(gate_at, gates_[0], gates_[1], gates_[2], gates_[3]);
    StoreBlocks4(up_at, ups_[0], ups_[1], ups_[2], ups_[3]);
    if (wants_y_) {
      if (s == 0) WaitForOwnPhase(&shared_->y_stored[half_], (chunk & 1) ^ 1);
      StoreBlocks4(SharedAddress(shared_->ys[half_]) + at, ys[0], ys[1], ys[2], ys[3]);
    }
    if (s == kSlices - 1) Publish(slot);
  }

 private:
  static __device__ __forceinline__ void Replace(uint32_t dy, uint32_t* gate, uint32_t* up,
                                                 uint32_t* y) {
    float low = Low(dy), high = High(dy);
    float low_gate = Low(*gate), low_up = Low(*up), high_gate = High(*gate), high_up = High(*up);
    GluGradient<Activation>(&low, &low_gate, &low_up);
    GluGradient<Activation>(&high, &high_gate, &high_up);
    *gate = PackPair(low_gate, high_gate);
    *up = PackPair(low_up, high_up);
    *y = PackPair(low, high);
  }
  __device__ __forceinline__ void Publish(int slot) {
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_][slot]);
  }

  BackwardShared* shared_;
  int half_;
  bool wants_y_;
  unsigned at_[kSlices];
  uint32_t gates_[4], ups_[4];
};

template <typename Activation, typename Terms>
__device__ __forceinline__ void MultiplyTiles(const TileGrid& grid, const Terms& terms,
                                              bool wants_y, BackwardShared* shared, int half) {
  Multiplier<true, kStages, kDepth> multiplier(&shared->operands, &shared->barriers, half);
  Backward<Activation> work(shared, half, wants_y);
  multiplier.Run(grid, terms, &work);
}

__device__ __forceinline__ void InitBackward(BackwardShared* shared) {
  InitOperandBarriers(&shared->barriers);
  for (int half = 0; half < 2; ++half) {
    for (int slot = 0; slot < kSlots; ++slot) {
      InitBarrier(&shared->loaded[half][slot]);
      InitBarrier(&shared->written[half][slot], 4);
    }
    InitBarrier(&shared->y_stored[half]);
  }
  PublishBarriers();
}

#endif

template <typename Activation, typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    Kernel(const __grid_constant__ BackwardMaps maps, const __grid_constant__ Terms terms,
           TileGrid grid, bool wants_y) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<BackwardShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitBackward(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStages(maps, grid, terms, shared);
    if (threadIdx.x == 32) ChunkMover(maps, grid, wants_y, shared, 0);
    if (threadIdx.x == 64) ChunkMover(maps, grid, wants_y, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyTiles<Activation>(grid, terms, wants_y, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

inline BackwardMaps MapsOf(const GatedLinearBackwardArgs& args) {
  const int64_t h = args.spec.hidden, n = args.spec.intermediate;
  auto* gate_up = static_cast<bf16*>(args.gate_up);
  const auto chunks = [&](const void* data, int64_t stride) {
    return MakeTensorMap({data, args.rows, n, stride, 64, kChunkColumns});
  };
  return {.dout = MakeTensorMap({args.dout, args.rows, h, h, kTileRows, kDepth}),
          .weight = MakeTensorMap({args.weight, h, n, n, kDepth, 64}),
          .gate = chunks(gate_up, 2 * n),
          .up = chunks(gate_up + n, 2 * n),
          .y = chunks(args.y, n)};
}

inline BackwardAdapter AdapterOf(const GatedLinearBackwardArgs& args,
                                 const GatedBackwardAdapter& adapter) {
  const int64_t n = args.spec.intermediate, r = adapter.rank;
  return {.g = MakeTensorMap({adapter.g, args.rows, r, r, kTileRows, kDepth}),
          .a = MakeTensorMap({adapter.a, r, n, n, kDepth, 64}),
          .rank = static_cast<int>(r)};
}

template <typename Activation>
void Launch(const GatedLinearBackwardArgs& args, const GatedBackwardAdapter* adapter,
            Stream* stream) {
  const BackwardMaps maps = MapsOf(args);
  const TileGrid grid =
      MakeTileGrid(args.rows, args.spec.intermediate, kTileColumns, args.spec.hidden, kDepth);
  const auto launch = [&](const auto& terms) {
    LaunchProduct(Kernel<Activation, std::decay_t<decltype(terms)>>, kSharedBytes, grid,
                  Handle(stream), "GatedLinearBackward", maps, terms, grid, args.wants_y);
  };
  if (adapter == nullptr) {
    launch(WholeTiles{});
  } else {
    launch(AdapterOf(args, *adapter));
  }
}

// In fused_gated_backward_gelu.cu.
extern template void Launch<TanhGelu>(const GatedLinearBackwardArgs&, const GatedBackwardAdapter*,
                                      Stream*);
extern template void Launch<ErfGelu>(const GatedLinearBackwardArgs&, const GatedBackwardAdapter*,
                                     Stream*);

}  // namespace coxswain::kernels::cuda::fused_gated_backward

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_BACKWARD_CUH_
