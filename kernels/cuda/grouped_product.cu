// y = x W_e^T + b_e and dx = dy W_e over the rows of each expert, in one launch.
//
// product_tiles.cuh. A segment of rows has tiles of 128 rows, counted from its end, so that the
// first one alone may begin before the segment. Two of them, below each other, are a cluster's
// pair, which shares the weights; where the number is odd, the first one is computed by pairs of
// columns beside each other, which share the rows. So no cluster leaves its segment, and what is
// computed for nothing is less than 128 rows a segment, 64 on average: 3 % at 2,048 rows an expert,
// 11 % at 512 of any number, none where segments are multiples of 128. The bytes of a stage are the
// same either way; from the L2 cache come 32 KiB of 48 where pairs share weights, 40 where they
// share rows.
//
// Rows before a segment's are read (as zeros before row 0), multiplied with what is not their
// weight and not stored: the map of the result is one of windows (tensor_map.h) of the 64 rows that
// start at each row, and a box that starts before row 0 of the window of the segment's first row
// stores what lies in it. Each row is multiplied by itself: values of other rows, NaN too, do not
// reach it.
//
// Tiles of an expert follow each other, columns swept for 16 pairs of rows at a time: the rows
// (2,048 of 2,048 values: 8 MiB) and the weights (1536 x 2048: 6 MiB) of the one or two experts that
// are worked on come from the L2 cache, and each from memory once. Of 128 experts of 1536 x 2048
// that is, at 2,048 rows each, 2.7 GB for 1.65 TFLOP: 0.6 ms of the copy's rate beside 2.9 ms at 560
// TFLOP/s; at 512 rows, 1.3 GB for 0.41 TFLOP: 0.3 ms beside 0.9 ms at 450. A tile takes 32 steps
// of 64 values of k, 12 where k is 768, and is stored during the next one's. 66 clusters take 93
// tiles each at 2,048 rows, 23 or 24 at 512: 1 % and 3 % idle.
//
// Bytes: 2 per element of the result written. Rows behind the last segment are filled with zeros by
// a warp of each block that is free. Bitwise deterministic: a sum runs over k in order, in one
// warpgroup; a row's bits do not depend on the other rows.
#include "kernels/cuda/grouped_product.h"

#include "kernels/cuda/segment_walk.cuh"
#include "kernels/cuda/stored_product.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kRowBox = 64;  // rows of the first operand, and of the result, in a box

// The tiles of all segments.
struct RowGrid {
  const int32_t* offsets;
  int experts, column_tiles, k_steps;
};

struct RowMaps {
  TensorMap rows, weight, result;
};

// Rows [offsets[experts], rows) of the result.
struct RowsBehind {
  bf16* result;
  int64_t rows, columns;
};

struct RowTile {
  int expert, column;
  int row;      // may lie before the segment's first
  int begin;    // the segment's first
  bool beside;  // the cluster's tiles lie beside each other, not below
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of a cluster.
struct RowTileCount {
  int column_tiles;

  __device__ __forceinline__ int operator()(int rows) const {
    const int tiles = (rows + kTileRows - 1) / kTileRows;
    return tiles / 2 * column_tiles + tiles % 2 * ((column_tiles + 1) / 2);
  }
};

class RowWalk {
 public:
  __device__ __forceinline__ explicit RowWalk(const RowGrid& grid)
      : grid_(grid),
        walk_(grid.offsets, grid.experts, static_cast<int>(blockIdx.x) / kProductCluster,
              static_cast<int>(gridDim.x) / kProductCluster, {grid.column_tiles}) {}
  __device__ __forceinline__ bool Has() const { return walk_.Has(); }
  __device__ __forceinline__ void Next() { walk_.Next(); }
  __device__ __forceinline__ int Steps() const { return grid_.k_steps; }
  __device__ __forceinline__ RowTile Now() const {
    const int rank = static_cast<int>(ClusterRank());
    const int tiles = (walk_.end() - walk_.begin() + kTileRows - 1) / kTileRows;
    const TileGrid pairs{.row_tiles = tiles / 2, .column_tiles = grid_.column_tiles};
    const int below = pairs.row_tiles * pairs.column_tiles;
    const bool beside = walk_.tile() >= below;
    const Tile tile =
        beside ? Tile{0, 2 * (walk_.tile() - below) + rank} : TileAt(pairs, walk_.tile());
    const int behind = tiles - (beside ? 0 : tiles % 2 + tile.row);
    return {.expert = walk_.segment(),
            .column = tile.column,
            .row = walk_.end() - behind * kTileRows,
            .begin = walk_.begin(),
            .beside = beside};
  }

 private:
  const RowGrid& grid_;
  SegmentWalk<RowTileCount> walk_;
};

__device__ __forceinline__ RowWalk TilesOf(const RowGrid& grid) { return RowWalk(grid); }

// The second operand comes in boxes: of 128 rows of the weight along k, or of 64 columns across it.
template <bool kAcross>
__device__ __forceinline__ void LoadWeights(unsigned char* to, const TensorMap& map, int k,
                                            const RowTile& tile, Columns of, uint64_t* barrier) {
  constexpr int kBoxes = kAcross ? 4 : 2, kBoxColumns = kTileColumns / kBoxes;
  const int rank = static_cast<int>(ClusterRank());
  const int all = of == Columns::kAll ? kBoxes : kBoxes / 2;
  const int first = tile.beside ? 0 : rank * kBoxes / 2;
  const int end = tile.beside ? all : min(all, first + kBoxes / 2);
  for (int box = first; box < end; ++box) {
    unsigned char* place = to + box * kBoxColumns * kStoredDepth * kBf16Bytes;
    const int column = tile.column * kTileColumns + box * kBoxColumns;
    const int x = kAcross ? column : k, y = kAcross ? k : column;
    if (tile.beside) {
      LoadBox(place, map, x, y, tile.expert, barrier);
    } else {
      LoadBoxForAll(place, map, x, y, tile.expert, barrier, 3);
    }
  }
}

__device__ __forceinline__ void LoadRows(unsigned char* to, const TensorMap& map, int k,
                                         const RowTile& tile, uint64_t* barrier) {
  constexpr int kBytes = kRowBox * kStoredDepth * kBf16Bytes;
  if (tile.beside) {
    const int rank = static_cast<int>(ClusterRank());
    LoadBoxForAll(to + rank * kBytes, map, k, tile.row + rank * kRowBox, barrier, 3);
    return;
  }
  for (int box = 0; box < kTileRows / kRowBox; ++box) {
    LoadBox(to + box * kBytes, map, k, tile.row + box * kRowBox, barrier);
  }
}

// By one thread for each warpgroup that multiplies: stored_product.cuh's StoreChunks, of the rows
// that are the segment's.
__device__ __forceinline__ void StoreRows(const TensorMap& result, const RowGrid& grid,
                                          StoredShared* shared, int half) {
  ForTiles(grid, [&](const RowTile& tile) {
    const int row = tile.row + half * 64, first = max(row, tile.begin);
    for (int c = 0; c < kStoredChunks; ++c) {
      const int slot = c % kStoredSlots;
      WaitForOwnPhase(&shared->written[half][slot], c / kStoredSlots & 1);
      if (first - row < 64) {
        StoreBox(result, tile.column * kTileColumns + c * kStoredColumns, row - first, first,
                 shared->chunks[half][slot]);
      }
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half][slot]);
    }
  });
  WaitUntilWritten();
}

// By one warp of each block.
__device__ __forceinline__ void FillRowsBehind(const RowsBehind& behind, const RowGrid& grid) {
  constexpr int kVectorElements = kVector<bf16>;
  const int64_t first = __ldg(grid.offsets + grid.experts);
  auto* vectors = reinterpret_cast<uint4*>(behind.result);
  const int64_t end = behind.rows * behind.columns / kVectorElements;
  for (int64_t i = first * behind.columns / kVectorElements + int64_t{blockIdx.x} * 32 +
                   threadIdx.x % 32;
       i < end; i += int64_t{gridDim.x} * 32) {
    vectors[i] = {};
  }
}

#endif

// Terms of product_tiles.cuh, kTurned: of dx = dy W_e.
template <bool kTurned>
struct RowTerms : WholeTiles {
  const bf16* bias;  // [experts, columns]; null: none
  int columns;       // of the result

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const RowTile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  __device__ __forceinline__ float2 Addend(const RowTile& tile, int j) const {
    const int column = tile.column * kTileColumns + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
    if (kTurned || bias == nullptr || column >= columns) return {};
    const bf16* pair = bias + int64_t{tile.expert} * columns + column;
    const uint32_t values = __ldg(reinterpret_cast<const uint32_t*>(pair));
    return {Low(values), High(values)};
  }
#endif
};

template <bool kTurned>
__global__ void __launch_bounds__(kProductThreads, 1)
    GroupedProductKernel(const __grid_constant__ RowMaps maps,
                         const __grid_constant__ RowTerms<kTurned> terms, RowGrid grid,
                         RowsBehind behind) {
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
                     LoadRows(left, maps.rows, k, tile, barrier);
                     LoadWeights<kTurned>(right, maps.weight, k, tile, terms.Of(tile), barrier);
                   });
    }
    if (threadIdx.x == 32) StoreRows(maps.result, grid, shared, 0);
    if (threadIdx.x == 64) StoreRows(maps.result, grid, shared, 1);
    if (threadIdx.x >= 96) FillRowsBehind(behind, grid);
  } else {
    TakeRegisters<232>();
    Multiplier<kTurned, kStoredStages, kStoredDepth> multiplier(&shared->operands,
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
  const void *operand, *weight, *bias;
  void* result;
  int64_t in, out;
};

template <bool kTurned>
void Launch(const RowProduct& p, const char* op, Stream* stream) {
  const int64_t k = p.spec.in_features, n = p.spec.out_features;
  const RowMaps maps{
      .rows = MakeTensorMap({p.operand, p.rows, p.in, p.in, kRowBox, kStoredDepth}),
      .weight = MakeStackMap({p.weight, p.spec.experts, n, k, k, n * k,
                              kTurned ? kStoredDepth : kHalfTileColumns}),
      .result = MakeStackMap({p.result, p.rows, 64, p.out, p.out, p.out, 64})};
  RowTerms<kTurned> terms;
  terms.bias = static_cast<const bf16*>(p.bias);
  terms.columns = static_cast<int>(p.out);
  const RowGrid grid{.offsets = p.offsets,
                     .experts = static_cast<int>(p.spec.experts),
                     .column_tiles = static_cast<int>(CeilDiv(p.out, kTileColumns)),
                     .k_steps = static_cast<int>(CeilDiv(p.in, kStoredDepth))};
  // A segment has at most one tile more than its rows fill.
  const int64_t tiles = (p.rows / kTileRows + std::min(p.rows, p.spec.experts)) * grid.column_tiles;
  LaunchProduct(GroupedProductKernel<kTurned>, kStoredSharedBytes, tiles, Handle(stream), op, maps,
                terms, grid, RowsBehind{static_cast<bf16*>(p.result), p.rows, p.out});
}

}  // namespace

bool GroupedProductTakes(const GroupedLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && spec.in_features % 8 == 0 &&
         spec.out_features % 8 == 0;
}

void GroupedProduct(const GroupedLinearForwardArgs& args, Stream* stream) {
  Launch<false>({.spec = args.spec,
                 .rows = args.rows,
                 .offsets = args.offsets,
                 .operand = args.x,
                 .weight = args.weight,
                 .bias = args.bias,
                 .result = args.y,
                 .in = args.spec.in_features,
                 .out = args.spec.out_features},
                "GroupedLinearForward", stream);
}

void GroupedProduct(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  Launch<true>({.spec = args.spec,
                .rows = args.rows,
                .offsets = args.offsets,
                .operand = args.dy,
                .weight = args.weight,
                .bias = nullptr,
                .result = args.dx,
                .in = args.spec.out_features,
                .out = args.spec.in_features},
               "GroupedLinearInputGradient", stream);
}

}  // namespace coxswain::kernels::cuda
