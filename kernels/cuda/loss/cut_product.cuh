// What the two products of cut_cross_entropy.h on product_tiles.cuh share: x W^T by tiles of 128 x
// 256 that a warpgroup keeps in registers, rounded, and works on while the next tile is multiplied.
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_CUH_
#define COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_CUH_

#include "kernels/cuda/loss/cut_product.h"
#include "kernels/cuda/loss/cut_row.cuh"
#include "kernels/cuda/products/stored_product.cuh"

namespace coxswain::kernels::cuda::cut {

// Columns [first, first + columns) of the vocabulary.
struct CutTerms : WholeTiles {
  const int32_t* targets;  // [rows]
  int rows, first, columns;
  float logit_scale, softcap;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr bool kAcross = false;

  __device__ __forceinline__ Columns Of(const Tile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const Tile& tile, uint64_t* barrier) const {
    LoadHalf(to, map, k, tile, 0, columns, Of(tile), barrier);
  }
#endif
};

inline CutTerms TermsOf(const CutCrossEntropySpec& spec, const int32_t* targets, int64_t rows,
                        int64_t first, int64_t columns) {
  CutTerms terms;
  terms.targets = targets;
  terms.rows = static_cast<int>(rows);
  terms.first = static_cast<int>(first);
  terms.columns = static_cast<int>(columns);
  terms.logit_scale = spec.logit_scale;
  terms.softcap = spec.softcap;
  return terms;
}
// `result` may be null, where no tile is stored.
inline StoredMaps MapsOf(const CutCrossEntropySpec& spec, const void* x, int64_t rows,
                         const void* weight, const CutPanel& panel) {
  const int64_t h = spec.hidden;
  const auto* rows_of_weight = static_cast<const bf16*>(weight) + panel.first * h;
  StoredMaps maps{.left = MakeTensorMap({x, rows, h, h, kTileRows, kStoredDepth}),
                  .weight = MakeTensorMap(
                      {rows_of_weight, panel.columns, h, h, kHalfTileColumns, kStoredDepth}),
                  .result = {}};
  if (panel.values != nullptr) {
    maps.result = MakeTensorMap({panel.values, rows, panel.columns, panel.ld, 64, kStoredColumns});
  }
  return maps;
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The tile that a thread works on: rows row(h), h < 2; of slice s of part p four columns of each,
// column(p, s) + ColumnOf(i), i < 4.
class CutTile {
 public:
  __device__ __forceinline__ CutTile(const CutTerms& terms, const TileGrid& grid, int half)
      : terms_(terms),
        grid_(grid),
        index_(static_cast<int>(blockIdx.x) / kProductCluster),
        within_(half * 64 + static_cast<int>(threadIdx.x) % 128 / kWarp * 16 +
                static_cast<int>(threadIdx.x) % kWarp / 4) {}

  __device__ __forceinline__ void Next() {
    const Tile tile = TileAt(grid_, index_);
    index_ += static_cast<int>(gridDim.x) / kProductCluster;
    row_ = tile.row * kTileRows + within_;
    tile_column_ = tile.column;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      target_[h] = has(h) ? __ldg(terms_.targets + row(h)) : kIgnoreTarget;
    }
  }
  __device__ __forceinline__ int row(int h) const { return row_ + 8 * h; }
  __device__ __forceinline__ bool has(int h) const { return row(h) < terms_.rows; }
  __device__ __forceinline__ int tile_column() const { return tile_column_; }
  // Rows that are none are ignored too.
  __device__ __forceinline__ bool ignored(int h) const { return target_[h] == kIgnoreTarget; }
  // Within the launch.
  __device__ __forceinline__ int column(int part, int s) const {
    return tile_column_ * kTileColumns + part * kStoredColumns + 16 * s +
           static_cast<int>(threadIdx.x) % 4 * 2;
  }
  static __device__ __forceinline__ int ColumnOf(int i) { return i / 2 * 8 + i % 2; }
  // Whether columns of the tile lie behind those of the launch.
  __device__ __forceinline__ bool IsCut() const {
    return (tile_column_ + 1) * kTileColumns > terms_.columns;
  }
  // Of row h from column(p, s): negative or above 9 where the target is none of the four.
  __device__ __forceinline__ int TargetFrom(int h, int column) const {
    return target_[h] - terms_.first - column;
  }

 private:
  const CutTerms& terms_;
  const TileGrid& grid_;
  int index_, within_;  // of the next tile; of a tile's rows
  int row_ = 0, tile_column_ = 0;
  int32_t target_[2];
};

// The four logits of row h in slice s.
template <bool kSoftcap>
__device__ __forceinline__ void ReadLogits(const uint32_t (&tile)[64], int s, int h, float scale,
                                           const cross_entropy::Softcap& softcap, float (&z)[4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t pair = tile[4 * s + 2 * j + h];
    z[2 * j] = scale * Low(pair);
    z[2 * j + 1] = scale * High(pair);
  }
  cross_entropy::CapAll<kSoftcap>(z, softcap);
}

#endif

}  // namespace coxswain::kernels::cuda::cut

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_CUH_
