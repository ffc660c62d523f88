// Tiles of product_tiles.cuh over the rows of each expert: a row of the first operand times the
// weight of its segment, for all segments in one launch.
//
// A segment of rows has tiles of 128 rows from its first row on, the last one as far as they go.
// Two of them, below each other, are a cluster's pair, which shares the weights; where the number
// is odd, the last one is computed by pairs of columns beside each other, which share the rows. So
// no cluster leaves its segment, and what is computed for nothing is less than 128 rows a segment,
// 64 on average: 3 % at 2,048 rows an expert, 11 % at 512 of any number, none where segments are
// multiples of 128. The bytes of a stage are the same either way; from the L2 cache come 32 KiB of
// 48 where pairs share weights, 40 where they share rows.
//
// Rows behind a segment's are read (as zeros behind the last), multiplied with what is not their
// weight and not stored: a result's map is one of windows (tensor_map.h), the 64 rows ahead of each
// row, and a box that goes beyond the window ahead of the segment's end stores what lies in it.
// Each row is multiplied by itself: values of other rows, NaN too, do not reach it.
//
// Tiles of an expert follow each other, columns swept for 16 pairs of rows at a time: its rows and
// weights come from the L2 cache, and each from memory once.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_TILES_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_TILES_CUH_

#include "kernels/cuda/experts/segment_walk.cuh"
#include "kernels/cuda/products/product_tiles.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kRowBox = 64;  // rows in a box of an operand in rows, and of a result

// The tiles of all segments.
struct RowGrid {
  const int32_t* offsets;
  int experts, column_tiles, k_steps;
};

struct RowTile {
  int expert, column;
  int row, end;  // the first; behind the segment's last
  bool beside;   // the cluster's tiles lie beside each other, not below
};

// Rows [offsets[experts], rows) of a matrix of `columns`, a multiple of 8, aligned to 16 bytes.
struct RowsBehind {
  bf16* data;  // null: none
  int64_t rows, columns;
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
    return {.expert = walk_.segment(),
            .column = tile.column,
            .row = walk_.begin() + (beside ? tiles - 1 : tile.row) * kTileRows,
            .end = walk_.end(),
            .beside = beside};
  }

 private:
  const RowGrid& grid_;
  SegmentWalk<RowTileCount> walk_;
};

__device__ __forceinline__ RowWalk TilesOf(const RowGrid& grid) { return RowWalk(grid); }

// The first operand of kDepth values of k, from boxes of kRowBox rows.
template <int kDepth>
__device__ __forceinline__ void LoadRows(unsigned char* to, const TensorMap& map, int k,
                                         const RowTile& tile, uint64_t* barrier) {
  constexpr int kBytes = kRowBox * kDepth * kBf16Bytes;
  if (tile.beside) {
    const int rank = static_cast<int>(ClusterRank());
    LoadBoxForAll(to + rank * kBytes, map, k, tile.row + rank * kRowBox, barrier, 3);
    return;
  }
  for (int box = 0; box < kTileRows / kRowBox; ++box) {
    LoadBox(to + box * kBytes, map, k, tile.row + box * kRowBox, barrier);
  }
}

// The second operand, from kBoxes boxes of the tile's columns: load(box, shared) starts the copy of
// one, for both blocks where `shared`.
template <int kBoxes, typename Load>
__device__ __forceinline__ void LoadWeights(const RowTile& tile, Columns of, const Load& load) {
  const int rank = static_cast<int>(ClusterRank());
  const int all = of == Columns::kAll ? kBoxes : kBoxes / 2;
  const int first = tile.beside ? 0 : rank * kBoxes / 2;
  const int end = tile.beside ? all : min(all, first + kBoxes / 2);
  for (int box = first; box < end; ++box) load(box, !tile.beside);
}

// A box of a stack of weights, for both blocks where `shared`.
__device__ __forceinline__ void LoadWeightBox(unsigned char* to, const TensorMap& map, int column,
                                              int row, int matrix, bool shared, uint64_t* barrier) {
  if (shared) {
    LoadBoxForAll(to, map, column, row, matrix, barrier, 3);
  } else {
    LoadBox(to, map, column, row, matrix, barrier);
  }
}

// kRowBox rows of a tile, from `first` on, in a matrix of windows: what lies behind the segment
// lies behind row kRowBox - 1 of the window.
struct WindowBox {
  int row, window;

  __device__ __forceinline__ WindowBox(const RowTile& tile, int first)
      : window(min(tile.row + first + kRowBox, tile.end)) {
    row = tile.row + first + kRowBox - window;
  }
  __device__ __forceinline__ bool Any() const { return row < kRowBox; }
};

// Zeros, by one warp of each block.
__device__ __forceinline__ void FillRowsBehind(const RowsBehind& behind, const RowGrid& grid) {
  if (behind.data == nullptr) return;
  const int64_t vectors = behind.columns / kVector<bf16>;
  auto* data = reinterpret_cast<uint4*>(behind.data);
  for (int64_t i = __ldg(grid.offsets + grid.experts) * vectors + int64_t{blockIdx.x} * 32 +
                   threadIdx.x % 32;
       i < behind.rows * vectors; i += int64_t{gridDim.x} * 32) {
    data[i] = {};
  }
}

#endif

inline RowGrid MakeRowGrid(const int32_t* offsets, int64_t experts, int64_t columns,
                           int tile_columns, int64_t depth, int step) {
  return {.offsets = offsets,
          .experts = static_cast<int>(experts),
          .column_tiles = static_cast<int>(CeilDiv(columns, tile_columns)),
          .k_steps = static_cast<int>(CeilDiv(depth, step))};
}
// Of clusters, at most: a segment has at most one tile more than its rows fill.
inline int64_t MostTiles(const RowGrid& grid, int64_t rows) {
  return (rows / kTileRows + std::min<int64_t>(rows, grid.experts)) * grid.column_tiles;
}

// The windows of the kRowBox rows ahead of each row and of the end. They begin before the matrix,
// of which nothing before its first row is read or written.
inline TensorMap MakeWindowMap(const void* data, int64_t rows, int64_t columns, int64_t stride,
                               int box_row_bytes = 128) {
  return MakeStackMap({.data = static_cast<const bf16*>(data) - kRowBox * stride,
                       .matrices = rows + 1,
                       .rows = kRowBox,
                       .columns = columns,
                       .stride = stride,
                       .matrix_stride = stride,
                       .box_rows = kRowBox,
                       .box_row_bytes = box_row_bytes});
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_ROW_TILES_CUH_
