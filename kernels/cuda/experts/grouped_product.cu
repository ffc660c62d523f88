// y = x W_e^T + b_e and dx = dy W_e over the rows of each expert, in one launch.
//
// row_tiles.cuh, with tiles that are written as in stored_product.cuh.
//
// The rows (2,048 of 2,048 values: 8 MiB) and the weights (1536 x 2048: 6 MiB) of the one or two
// experts that are worked on come from the L2 cache, and each from memory once. Of 128 such experts
// that is, at 2,048 rows each, 2.7 GB for 1.65 TFLOP: 0.6 ms of the copy's rate beside 2.9 ms at
// 560 TFLOP/s; at 512 rows, 1.3 GB for 0.41 TFLOP: 0.3 ms beside 0.9 ms at 450. A tile takes 32
// steps of 64 values of k, 12 where k is 768, and is stored during the next one's. 66 clusters take
// 93 tiles each at 2,048 rows, 23 or 24 at 512: 1 % and 3 % idle.
//
// Bytes: 2 per element of the result written. Rows behind the last segment, where they are
// wanted, are filled with zeros by a warp of each block that is free. Bitwise deterministic: a sum
// runs over k in order, in one warpgroup; a row's bits do not depend on the other rows.
#include "kernels/cuda/experts/grouped_product.h"

#include "kernels/cuda/experts/row_tiles.cuh"
#include "kernels/cuda/products/stored_product.cuh"

namespace coxswain::kernels::cuda {
namespace {

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
  const bf16* bias;  // [experts, columns]

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float2 Addend(const RowTile& tile, int j) const {
    const int column = tile.column * kTileColumns + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
    if (column >= columns) return {};
    const bf16* pair = bias + int64_t{tile.expert} * columns + column;
    const uint32_t values = __ldg(reinterpret_cast<const uint32_t*>(pair));
    return {Low(values), High(values)};
  }
#endif
};

template <bool kAcross, typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    GroupedProductKernel(const __grid_constant__ RowMaps maps, const __grid_constant__ Terms terms,
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
    Multiplier<kAcross, kStoredStages, kStoredDepth> multiplier(&shared->operands,
                                                                &shared->barriers, group - 1);
    StoredAsIs work(terms, grid, shared, group - 1);
    multiplier.Run(grid, terms, &work);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

// A row product: `in` columns of the rows, `out` of the result.
struct RowProduct {
  const GroupedLinearSpec& spec;
  int64_t rows;
  const int32_t* offsets;
  const void *operand, *weight;
  void* result;
  int64_t in, out;
  bool zeros_behind;
};

template <bool kAcross, typename Terms>
void Launch(const RowProduct& p, Terms terms, const char* op, Stream* stream) {
  const int64_t k = p.spec.in_features, n = p.spec.out_features;
  const RowMaps maps{.rows = MakeTensorMap({p.operand, p.rows, p.in, p.in, kRowBox, kStoredDepth}),
                     .weight = MakeStackMap({p.weight, p.spec.experts, n, k, k, n * k,
                                             kAcross ? kStoredDepth : kHalfTileColumns}),
                     .result = MakeWindowMap(p.result, p.rows, p.out, p.out)};
  terms.columns = static_cast<int>(p.out);
  const RowGrid grid =
      MakeRowGrid(p.offsets, p.spec.experts, p.out, kTileColumns, p.in, kStoredDepth);
  LaunchProduct(GroupedProductKernel<kAcross, Terms>, kStoredSharedBytes, MostTiles(grid, p.rows),
                Handle(stream), op, maps, terms, grid,
                RowsBehind{p.zeros_behind ? static_cast<bf16*>(p.result) : nullptr, p.rows, p.out});
}

}  // namespace

bool GroupedProductTakes(const GroupedLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && spec.in_features % 8 == 0 &&
         spec.out_features % 8 == 0;
}

void GroupedProduct(const GroupedLinearForwardArgs& args, Stream* stream) {
  const RowProduct product{.spec = args.spec,
                           .rows = args.rows,
                           .offsets = args.offsets,
                           .operand = args.x,
                           .weight = args.weight,
                           .result = args.y,
                           .in = args.spec.in_features,
                           .out = args.spec.out_features,
                           .zeros_behind = args.zeros_behind};
  if (args.bias == nullptr) {
    Launch<false>(product, RowTerms<false>{}, "GroupedLinearForward", stream);
  } else {
    BiasedTerms terms = {};
    terms.bias = static_cast<const bf16*>(args.bias);
    Launch<false>(product, terms, "GroupedLinearForward", stream);
  }
}

void GroupedProduct(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  Launch<true>({.spec = args.spec,
                .rows = args.rows,
                .offsets = args.offsets,
                .operand = args.dy,
                .weight = args.weight,
                .result = args.dx,
                .in = args.spec.out_features,
                .out = args.spec.in_features,
                .zeros_behind = args.zeros_behind},
               RowTerms<true>{}, "GroupedLinearInputGradient", stream);
}

}  // namespace coxswain::kernels::cuda
