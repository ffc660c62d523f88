// dW_e = dy_e^T x_e (+ dW_e) for every expert in one launch, the sum over the rows of its segment.
//
// product_tiles.cuh: both operands lie across k. Tiles of 128 rows by 256 columns of dW_e; pairs of
// row tiles share x. The k loop of a segment of n rows has ceil(n / 64) steps, of which the first
// is the one that n does not fill: boxes of the windows (tensor_map.h) of the 64 rows that start at
// each row, which begin before row 0 of the segment's first window, so that the copy engine puts
// zeros where rows of other segments would be, and what is there does not reach the sum. Of that
// step the 16s of k that hold zeros alone are left out: 8 rows a segment are multiplied for nothing
// on average. Experts without rows have no tiles; a warp of each block that is free fills their dW
// with zeros.
//
// A bfloat16 dW is written like stored_product.cuh's results, during the next tile. Sums that stay
// float32 leave no registers for that: a warpgroup stores its tile at once, while the other one
// multiplies the stages that are there. Where dW is added to, the copy engine adds: each element
// once, so that the order is fixed; a bfloat16 sum is rounded before. Bitwise deterministic: a sum
// runs over the rows in order, in one warpgroup, and depends on the number of rows of its expert.
//
// Bytes: an element of dW written, and read where it is added to; dy and x mostly from the L2 cache
// (512 rows of an expert of 1536 x 2048: 3.5 MiB), once from memory. For 128 such experts dW alone
// is 0.8 GB in bfloat16, 1.6 in float32, and twice that where it is added to: beside 0.92 ms at 450
// TFLOP/s for 512 rows each 0.2 to 0.75 ms of the copy's rate on an H200, 1.1 ms on an H100, where
// adding in float32 is bound by memory; at 2,048 rows 2.9 ms of products hide them.
#include <algorithm>

#include "kernels/cuda/experts/grouped_product.h"
#include "kernels/cuda/experts/segment_walk.cuh"
#include "kernels/cuda/products/stored_product.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kChunkRows = 64;
constexpr int kFloatColumns = 32;  // of a chunk in float32
static_assert(kChunkRows * kFloatColumns * sizeof(float) == kStoredChunkBytes);
constexpr int kFloatChunks = kTileColumns / kFloatColumns;  // of a tile
static_assert(kFloatChunks % kStoredSlots == 0 && kFloatChunks / kStoredSlots % 2 == 0);

// dW of every expert with rows.
struct WeightGrid {
  const int32_t* offsets;
  int experts;
  TileGrid of_expert;
};

struct WeightMaps {
  TensorMap dy, x, result;
};

// dW of every expert without rows, in vectors of 16 bytes each.
struct EmptyExperts {
  uint4* result;  // null: they stay as they are
  int64_t vectors;
};

struct WeightTile {
  int expert, row, column;
  int begin, rows;  // the segment's
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct WeightTileCount {
  int of_expert;

  __device__ __forceinline__ int operator()(int rows) const { return rows > 0 ? of_expert : 0; }
};

class WeightWalk {
 public:
  __device__ __forceinline__ explicit WeightWalk(const WeightGrid& grid)
      : grid_(grid),
        walk_(grid.offsets, grid.experts, static_cast<int>(blockIdx.x) / kProductCluster,
              static_cast<int>(gridDim.x) / kProductCluster,
              {grid.of_expert.row_tiles * grid.of_expert.column_tiles}) {}
  __device__ __forceinline__ bool Has() const { return walk_.Has(); }
  __device__ __forceinline__ void Next() { walk_.Next(); }
  __device__ __forceinline__ int Steps() const {
    return (walk_.end() - walk_.begin() + kStoredDepth - 1) / kStoredDepth;
  }
  __device__ __forceinline__ WeightTile Now() const {
    const Tile tile = TileAt(grid_.of_expert, walk_.tile());
    return {.expert = walk_.segment(),
            .row = tile.row,
            .column = tile.column,
            .begin = walk_.begin(),
            .rows = walk_.end() - walk_.begin()};
  }

 private:
  const WeightGrid& grid_;
  SegmentWalk<WeightTileCount> walk_;
};

__device__ __forceinline__ WeightWalk TilesOf(const WeightGrid& grid) { return WeightWalk(grid); }

// Of the first step of so many rows: those that are not the segment's.
__device__ __forceinline__ int RowsBefore(int rows) {
  return kStoredDepth - 1 - (rows - 1) % kStoredDepth;
}

// Rows of dy and x from value k of the sum on.
__device__ __forceinline__ void LoadRows(const WeightMaps& maps, const WeightTile& tile, int k,
                                         unsigned char* left, unsigned char* right, Columns of,
                                         uint64_t* barrier) {
  constexpr int kBoxColumns = 64, kBytes = kBoxColumns * kStoredDepth * kBf16Bytes;
  constexpr int kBoxes = kTileColumns / kBoxColumns / kProductCluster;
  const int before = RowsBefore(tile.rows);
  const int first = tile.begin + max(k - before, 0), row = min(k - before, 0);
  for (int box = 0; box < kTileRows / kBoxColumns; ++box) {
    LoadBox(left + box * kBytes, maps.dy, tile.row * kTileRows + box * kBoxColumns, row, first,
            barrier);
  }
  const int rank = static_cast<int>(ClusterRank());
  if (of == Columns::kFirstHalf && rank > 0) return;
  for (int box = rank * kBoxes; box < (rank + 1) * kBoxes; ++box) {
    LoadBoxForAll(right + box * kBytes, maps.x, tile.column * kTileColumns + box * kBoxColumns, row,
                  first, barrier, 3);
  }
}

// By one thread for each warpgroup that multiplies: stored_product.cuh's StoreChunks, of kColumns.
template <int kColumns>
__device__ __forceinline__ void StoreTiles(const TensorMap& result, const WeightGrid& grid,
                                           bool add, StoredShared* shared, int half) {
  ForTiles(grid, [&](const WeightTile& tile) {
    const int row = tile.row * kTileRows + half * kChunkRows;
    for (int c = 0; c < kTileColumns / kColumns; ++c) {
      const int slot = c % kStoredSlots, column = tile.column * kTileColumns + c * kColumns;
      WaitForOwnPhase(&shared->written[half][slot], c / kStoredSlots & 1);
      if (add) {
        AddBox(result, column, row, tile.expert, shared->chunks[half][slot]);
      } else {
        StoreBox(result, column, row, tile.expert, shared->chunks[half][slot]);
      }
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half][slot]);
    }
  });
  WaitUntilWritten();
}

// A tile's sums as they are, in boxes of 32 columns: Multiplier's order.
__device__ __forceinline__ void WriteFloats(const float (&sums)[128], StoredShared* shared,
                                            int half) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int c = 0; c < kFloatChunks; ++c) {
    const int slot = c % kStoredSlots;
    WaitForOwnPhase(&shared->stored[half][slot], (c / kStoredSlots & 1) ^ 1);
    unsigned char* chunk = shared->chunks[half][slot];
#pragma unroll
    for (int i = 0; i < kFloatColumns / 8; ++i) {
      const int sixteen = 2 * i + lane % 4 / 2;  // bytes of a row
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = (row + 8 * h) * 128 + (sixteen ^ row % 8) * 16 + lane % 2 * 8;
        const int j = 4 * (c * kFloatColumns / 8 + i) + 2 * h;
        *reinterpret_cast<float2*>(chunk + at) = {sums[j], sums[j + 1]};
      }
    }
    PublishToCopies();
    __syncwarp();
    if (lane == 0) Arrive(&shared->written[half][slot]);
  }
}

// By one warp of each block.
__device__ __forceinline__ void FillEmpty(const EmptyExperts& empty, const WeightGrid& grid) {
  if (empty.result == nullptr) return;
  for (int e = 0; e < grid.experts; ++e) {
    if (__ldg(grid.offsets + e) < __ldg(grid.offsets + e + 1)) continue;
    uint4* vectors = empty.result + e * empty.vectors;
    for (int64_t i = int64_t{blockIdx.x} * 32 + threadIdx.x % 32; i < empty.vectors;
         i += int64_t{gridDim.x} * 32) {
      vectors[i] = {};
    }
  }
}

#endif

// Terms of product_tiles.cuh.
struct WeightTerms : WholeTiles {
  int columns;  // of dW_e

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const WeightTile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  __device__ __forceinline__ int LeftOut(const WeightTile& tile) const {
    return RowsBefore(tile.rows) / 16 * 16;
  }
#endif
};

// T: of dW.
template <typename T>
__global__ void __launch_bounds__(kProductThreads, 1)
    GroupedWeightProductKernel(const __grid_constant__ WeightMaps maps, WeightTerms terms,
                               WeightGrid grid, bool add, EmptyExperts empty) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr bool kFloat = std::is_same_v<T, float>;
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
                   [&](const WeightTile& tile, int k, unsigned char* left, unsigned char* right,
                       uint64_t* barrier) {
                     LoadRows(maps, tile, k, left, right, terms.Of(tile), barrier);
                   });
    }
    constexpr int kColumns = kFloat ? kFloatColumns : kStoredColumns;
    if (threadIdx.x == 32) StoreTiles<kColumns>(maps.result, grid, add, shared, 0);
    if (threadIdx.x == 64) StoreTiles<kColumns>(maps.result, grid, add, shared, 1);
    if (threadIdx.x >= 96) FillEmpty(empty, grid);
  } else {
    TakeRegisters<232>();
    Multiplier<true, kStoredStages, kStoredDepth, true> multiplier(&shared->operands,
                                                                   &shared->barriers, group - 1);
    if constexpr (kFloat) {
      multiplier.RunInFloat32(
          grid, terms, [&](const float(&sums)[128]) { WriteFloats(sums, shared, group - 1); });
    } else {
      StoredAsIs work(terms, grid, shared, group - 1);
      multiplier.Run(grid, terms, &work);
    }
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

}  // namespace

void GroupedWeightProduct(const GroupedLinearWeightGradientArgs& args, Stream* stream) {
  const GroupedLinearSpec& spec = args.spec;
  const int64_t k = spec.in_features, n = spec.out_features;
  const int64_t bytes = n * k * DTypeBytes(spec.grad_dtype);
  const auto windows = [&](const void* data, int64_t columns) {
    return MakeStackMap({data, args.rows, kStoredDepth, columns, columns, columns, kStoredDepth});
  };
  const WeightMaps maps{.dy = windows(args.dy, n),
                        .x = windows(args.x, k),
                        .result = MakeStackMap({args.dweight, spec.experts, n, k, k, n * k,
                                                kChunkRows, spec.grad_dtype})};
  WeightTerms terms;
  terms.columns = static_cast<int>(k);
  const WeightGrid grid{.offsets = args.offsets,
                        .experts = static_cast<int>(spec.experts),
                        .of_expert = MakeTileGrid(n, k, kTileColumns, 0, kStoredDepth)};
  const int64_t tiles = spec.experts * grid.of_expert.row_tiles * grid.of_expert.column_tiles;
  const EmptyExperts empty{args.accumulate ? nullptr : static_cast<uint4*>(args.dweight),
                           bytes / 16};
  ForDType(spec.grad_dtype, [&](auto zero) {
    LaunchProduct(GroupedWeightProductKernel<decltype(zero)>, kStoredSharedBytes, tiles,
                  Handle(stream), "GroupedLinearWeightGradient", maps, terms, grid, args.accumulate,
                  empty);
  });
}

}  // namespace coxswain::kernels::cuda
