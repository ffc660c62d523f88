// gate_up = x W^T and y = act(gate) up in one launch, act an Activation of glu.cuh; with adapters,
// gate_up = x W^T + [h_gate B_gate^T, h_up B_up^T].
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; Hu et al., "LoRA", 2021.
//
// product_tiles.cuh with tiles of 128 rows by 128 columns of gate and the same 128 columns of up,
// so that a thread holds both factors of its elements of y. They are rounded, and y is computed
// from the rounded values by the function of swiglu.cu or geglu.cu. A warp puts its part of a chunk
// of the three into shared memory, and a thread of warpgroup 0 stores the chunk of all four warps
// by the copy engine. Bytes: 6 per element of y written; x and W are read by every column or row of
// tiles, mostly from the L2 cache. Bitwise deterministic: a sum runs over k in order, in one
// warpgroup. Adapters are steps behind those of W: first of gate's half of the columns, then of
// up's.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_FORWARD_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_FORWARD_CUH_

#include <type_traits>

#include "kernels/cuda/activations/gelu.cuh"
#include "kernels/cuda/products/fused_gated_linear.h"
#include "kernels/cuda/products/gated_chunks.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda::fused_gated_forward {

struct ForwardMaps {
  TensorMap x, gate_weight, up_weight, gate, up, y;
};

// The adapters of gate and up as terms of product_tiles.cuh.
struct ForwardAdapters {
  TensorMap h[2], b[2];  // of gate, of up
  int rank, columns;     // columns of gate

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const Tile&) const { return Columns::kAll; }
  template <typename Add>
  __device__ __forceinline__ void ForAdded(const Tile&, const Add& add) const {
    for (int member = 0; member < 2; ++member) ForRank<kGatedDepth>(member, rank, add);
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    LoadBox(left, h[step.member], step.k, tile.row * kTileRows, barrier);
    const int half = static_cast<int>(ClusterRank());
    // Behind the last row there are zeros.
    const int row = half == step.member ? tile.column * kGatedColumns : columns;
    LoadBoxForAll(right + half * Operands<kGatedStages, kGatedDepth>::kHalfBytes, b[step.member],
                  step.k, row, barrier, 3);
  }
#endif
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread for each warpgroup that multiplies.
__device__ __forceinline__ void StoreChunks(const ForwardMaps& maps, const TileGrid& grid,
                                            bool wants_y, GatedShared* shared, int half) {
  unsigned phase = 0;
  ForTiles(grid, [&](const Tile& tile) {
    const int row = tile.row * kTileRows + half * 64;
    for (int c = 0; c < kGatedChunks; ++c) {
      const int column = tile.column * kGatedColumns + c * kGatedChunkColumns;
      WaitForOwnPhase(&shared->written[half], phase);
      StoreBox(maps.gate, column, row, shared->chunks[half][0]);
      StoreBox(maps.up, column, row, shared->chunks[half][1]);
      if (wants_y) StoreBox(maps.y, column, row, shared->chunks[half][2]);
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half]);
      phase ^= 1;
    }
  });
  WaitUntilWritten();
}

template <typename Terms>
__device__ __forceinline__ void LoadStages(const ForwardMaps& maps, const TileGrid& grid,
                                           const Terms& terms, GatedShared* shared) {
  const bool first = ClusterRank() == 0;
  const TensorMap& weight = first ? maps.gate_weight : maps.up_weight;
  const unsigned offset = first ? 0 : shared->operands.kHalfBytes;
  LoadOperands(grid, terms, &shared->operands, &shared->barriers,
               [&](const Tile& tile, int k, void* x, unsigned char* weights, uint64_t* barrier) {
                 LoadBox(x, maps.x, k, tile.row * kTileRows, barrier);
                 LoadBoxForAll(weights + offset, weight, k, tile.column * kGatedColumns, barrier,
                               3);
               });
}

// What a warpgroup does with a tile: 16 columns of gate, up and y a slice.
template <typename Activation>
class Forward {
 public:
  static constexpr int kParts = kGatedChunks, kSlices = kGatedChunkColumns / 16;

  __device__ __forceinline__ Forward(GatedShared* shared, int half, bool wants_y)
      : shared_(shared), half_(half), wants_y_(wants_y) {
    const unsigned chunk = SharedAddress(shared->chunks[half][0]);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) at_[s] = chunk + BlocksOffset<kGatedChunkColumns>(s);
  }
  __device__ __forceinline__ void Fetch(int, int) {}
  __device__ __forceinline__ void Finish(int chunk, int s, const uint32_t (&tile)[64]) {
    if (s == 0) WaitForOwnPhase(&shared_->stored[half_], (chunk & 1) ^ 1);
    Put(&tile[4 * s], &tile[32 + 4 * s], at_[s]);
    if (s != kSlices - 1) return;
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_]);
  }

 private:
  __device__ __forceinline__ void Put(const uint32_t* gates, const uint32_t* ups, unsigned at) {
    StoreBlocks4(at, gates[0], gates[1], gates[2], gates[3]);
    StoreBlocks4(at + kGatedChunkBytes, ups[0], ups[1], ups[2], ups[3]);
    if (!wants_y_) return;
    uint32_t ys[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ys[i] = PackPair(Low(ups[i]) * Activation::Value(Low(gates[i])),
                       High(ups[i]) * Activation::Value(High(gates[i])));
    }
    StoreBlocks4(at + 2 * kGatedChunkBytes, ys[0], ys[1], ys[2], ys[3]);
  }

  GatedShared* shared_;
  int half_;
  bool wants_y_;
  unsigned at_[kSlices];
};

template <typename Activation, typename Terms>
__device__ __forceinline__ void MultiplyTiles(const TileGrid& grid, const Terms& terms,
                                              bool wants_y, GatedShared* shared, int half) {
  Multiplier<false, kGatedStages, kGatedDepth> multiplier(&shared->operands, &shared->barriers,
                                                          half);
  Forward<Activation> work(shared, half, wants_y);
  multiplier.Run(grid, terms, &work);
}

#endif

template <typename Activation, typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    Kernel(const __grid_constant__ ForwardMaps maps, const __grid_constant__ Terms terms,
           TileGrid grid, bool wants_y) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<GatedShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitGated(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStages(maps, grid, terms, shared);
    if (threadIdx.x == 32) StoreChunks(maps, grid, wants_y, shared, 0);
    if (threadIdx.x == 64) StoreChunks(maps, grid, wants_y, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyTiles<Activation>(grid, terms, wants_y, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

inline ForwardMaps MapsOf(const GatedLinearForwardArgs& args) {
  const int64_t h = args.spec.hidden, n = args.spec.intermediate;
  const auto* weight = static_cast<const bf16*>(args.weight);
  auto* gate_up = static_cast<bf16*>(args.gate_up);
  const auto output = [&](const void* data, int64_t stride) {
    return MakeTensorMap({data, args.rows, n, stride, 64, kGatedChunkColumns});
  };
  return {.x = MakeTensorMap({args.x, args.rows, h, h, kTileRows, kGatedDepth}),
          .gate_weight = MakeTensorMap({weight, n, h, h, kGatedColumns, kGatedDepth}),
          .up_weight = MakeTensorMap({weight + n * h, n, h, h, kGatedColumns, kGatedDepth}),
          .gate = output(gate_up, 2 * n),
          .up = output(gate_up + n, 2 * n),
          .y = output(args.y != nullptr ? args.y : gate_up, n)};
}

inline ForwardAdapters AdaptersOf(const GatedLinearForwardArgs& args,
                                  const GatedForwardAdapters& adapters) {
  const int64_t n = args.spec.intermediate, r = adapters.rank;
  const auto* h = static_cast<const bf16*>(adapters.h);
  ForwardAdapters terms = {};
  terms.rank = static_cast<int>(r);
  terms.columns = static_cast<int>(n);
  for (int j = 0; j < 2; ++j) {
    terms.h[j] = MakeTensorMap({h + j * r, args.rows, r, 2 * r, kTileRows, kGatedDepth});
    terms.b[j] = MakeTensorMap({adapters.b[j], n, r, r, kGatedColumns, kGatedDepth});
  }
  return terms;
}

template <typename Activation>
void Launch(const GatedLinearForwardArgs& args, const GatedForwardAdapters* adapters,
            Stream* stream) {
  const ForwardMaps maps = MapsOf(args);
  const TileGrid grid =
      MakeTileGrid(args.rows, args.spec.intermediate, kGatedColumns, args.spec.hidden, kGatedDepth);
  const auto launch = [&](const auto& terms) {
    LaunchProduct(Kernel<Activation, std::decay_t<decltype(terms)>>, kGatedSharedBytes, grid,
                  Handle(stream), "GatedLinearForward", maps, terms, grid, args.y != nullptr);
  };
  if (adapters == nullptr) {
    launch(WholeTiles{});
  } else {
    launch(AdaptersOf(args, *adapters));
  }
}

// In fused_gated_forward_gelu.cu.
extern template void Launch<TanhGelu>(const GatedLinearForwardArgs&, const GatedForwardAdapters*,
                                      Stream*);
extern template void Launch<ErfGelu>(const GatedLinearForwardArgs&, const GatedForwardAdapters*,
                                     Stream*);

}  // namespace coxswain::kernels::cuda::fused_gated_forward

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_FORWARD_CUH_
