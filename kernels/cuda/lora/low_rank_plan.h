// How one pass over a wide matrix X [T, N] of adapters is cut into blocks.
#ifndef COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PLAN_H_
#define COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PLAN_H_

#include <cstdint>

#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels::cuda {

// Of one pass: its table is an argument of the kernels. Packs of more take the products.
inline constexpr int kMaxLowRankMembers = 3;

inline constexpr int kLowRankTileRows = 64;
inline constexpr int kLowRankTileColumns = 256;
inline constexpr int kMaxLowRankSlices = 48;

// Neighbouring columns of one member. Block first_block + s takes the tiles of rows from s tiles
// on, `tiles` of them; all columns of a slice fit one block.
struct LowRankSlice {
  int32_t member = 0;
  int32_t column = 0, columns = 0;
  int32_t first_block = 0, splits = 0;
  int32_t tiles = 0;
  // Floats before the sums of the slice: over rows, [splits][columns][rank]; over columns,
  // [T][rank]
  // (-1: the slice is the whole member and its sums are final).
  int64_t row_sums = 0, column_sums = -1;
};

struct LowRankPlan {
  int32_t slices = 0;  // 0: does not fit the table of slices or the workspace
  int32_t blocks = 0;
  int32_t widest = 0;  // columns of the widest slice, rounded up to whole tiles
  int64_t floats = 0;  // of all partial sums
  LowRankSlice slice[kMaxLowRankSlices] = {};
};

struct LowRankProblem {
  int64_t rows = 0;  // > 0
  int64_t rank = 0;
  int32_t members = 0;
  int64_t columns[kMaxLowRankMembers] = {0, 0, 0};
  int64_t slice_tiles = 0;  // columns of one block at most, in tiles
  bool sums_columns = false, sums_rows = false;
  int64_t blocks = 0;  // at most
};
// Of one tile of rows of a slice, in halves of what 256 columns of it take: a part of a tile of
// columns takes as long as a whole one, and the sums of its rows about half of that (an H200, r =
// 16: 1.9 us with 128 columns, 6.0 with 896).
constexpr int64_t LowRankTileCost(int64_t columns) {
  return 2 * ((columns + kLowRankTileColumns - 1) / kLowRankTileColumns) + 1;
}
// Blocks differ as little as tiles allow: the pass takes as long as the dearest.
LowRankPlan PlanLowRank(const LowRankProblem& problem, int64_t workspace_bytes);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PLAN_H_
