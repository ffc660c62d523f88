// The rows of each expert times that expert's weights: tiles of row_tiles.cuh, written as in
// stored_product.cuh, in one launch. Rows behind the last segment, where they are wanted, are
// filled with zeros by a warp of each block that is free.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_PRODUCT_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_PRODUCT_CUH_

#include "kernels/cuda/experts/row_tiles.cuh"
#include "kernels/cuda/products/stored_product.cuh"

namespace coxswain::kernels::cuda {

struct RowMaps {
  TensorMap rows, weight, result;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread for each warpgroup that multiplies: stored_product.cuh's StoreChunks, of the rows
// that are the segment's.
__device__ __forceinline__ void StoreRows(const TensorMap& result, const RowGrid& grid,
                                          StoredShared* shared, int half) {
  ForTiles(grid, [&](const RowTile& tile) {
    const WindowBox box(tile, half * kRowBox);
    for (int c = 0; c < kStoredChunks; ++c) {
      const int slot = c % kStoredSlots;
      WaitForOwnPhase(&shared->written[half][slot], c / kStoredSlots & 1);
      if (box.Any()) {
        StoreBox(result, tile.column * kTileColumns + c * kStoredColumns, box.row, box.window,
                 shared->chunks[half][slot]);
      }
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half][slot]);
    }
  });
  WaitUntilWritten();
}

#endif

// Terms of product_tiles.cuh. kAcross: of dx = dy W_e, whose weights lie across k.
template <bool kAcross>
struct RowTerms : WholeTiles {
  int columns;  // of the result

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const RowTile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const RowTile& tile, uint64_t* barrier) const {
    constexpr int kBoxes = kAcross ? 4 : 2, kBoxColumns = kTileColumns / kBoxes;
    LoadWeights<kBoxes>(tile, Of(tile), [&](int box, bool shared) {
      unsigned char* place = to + box * kBoxColumns * kStoredDepth * kBf16Bytes;
      const int column = tile.column * kTileColumns + box * kBoxColumns;
      LoadWeightBox(place, map, kAcross ? column : k, kAcross ? k : column, tile.expert, shared,
                    barrier);
    });
  }
#endif
};

struct BiasedTerms : RowTerms<false> {
  const bf16* bias;  // [experts, columns]; null: none

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float2 Addend(const RowTile& tile, int j) const {
    const int column = tile.column * kTileColumns + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
    if (bias == nullptr || column >= columns) return {};
    const bf16* pair = bias + int64_t{tile.expert} * columns + column;
    if (reinterpret_cast<uintptr_t>(pair) % 4 != 0) return {ToFloat(pair[0]), ToFloat(pair[1])};
    const uint32_t values = __ldg(reinterpret_cast<const uint32_t*>(pair));
    return {Low(values), High(values)};
  }
#endif
};

template <bool kAcross, typename Terms, typename Elements = OfBf16>
__global__ void __launch_bounds__(kProductThreads, 1)
    RowProductKernel(const __grid_constant__ RowMaps maps, const __grid_constant__ Terms terms,
                     RowGrid grid, RowsBehind behind) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<StoredShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitStored(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) {
      LoadOperands(grid, terms, &shared->operands, &shared->barriers,
                   [&](const RowTile& tile, int k, unsigned char* left, unsigned char* right,
                       uint64_t* barrier) {
                     LoadRows<kStoredDepth>(left, maps.rows, k, tile, barrier);
                     terms.LoadWeight(right, maps.weight, k, tile, barrier);
                   });
    }
    if (threadIdx.x == 32) StoreRows(maps.result, grid, shared, 0);
    if (threadIdx.x == 64) StoreRows(maps.result, grid, shared, 1);
    if (threadIdx.x >= 96) FillRowsBehind(behind, grid);
  } else {
    TakeRegisters<232>();
    Multiplier<kAcross, kStoredStages, kStoredDepth, false, Elements> multiplier(
        &shared->operands, &shared->barriers, group - 1);
    StoredAsIs work(terms, grid, shared, group - 1);
    multiplier.Run(grid, terms, &work);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_PRODUCT_CUH_
