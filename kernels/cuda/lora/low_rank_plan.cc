#include "kernels/cuda/lora/low_rank_plan.h"

#include <algorithm>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

// Blocks needed when the tiles of none cost more than `load`.
int64_t BlocksFor(const LowRankPlan& plan, int64_t tiles, int64_t load) {
  int64_t blocks = 0;
  for (int i = 0; i < plan.slices; ++i) {
    blocks += CeilDiv(tiles, std::min(tiles, load / LowRankTileCost(plan.slice[i].columns)));
  }
  return blocks;
}

// The smallest load per block that needs at most `blocks` blocks (one per slice at least).
int64_t SmallestLoad(const LowRankPlan& plan, int64_t tiles, int64_t blocks) {
  int64_t dearest = 0;
  for (int i = 0; i < plan.slices; ++i) {
    dearest = std::max(dearest, LowRankTileCost(plan.slice[i].columns));
  }
  int64_t low = dearest, high = dearest * tiles;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (BlocksFor(plan, tiles, middle) <= blocks) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Slices of one member, as even as whole tiles allow. False when the table is full.
bool AddSlices(const LowRankProblem& problem, int32_t member, LowRankPlan* plan) {
  const int64_t columns = problem.columns[member];
  const int64_t tiles = CeilDiv(columns, kLowRankTileColumns);
  const int64_t count = CeilDiv(tiles, problem.slice_tiles);
  if (plan->slices + count > kMaxLowRankSlices) return false;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = tiles * i / count * kLowRankTileColumns;
    const int64_t end = std::min(columns, tiles * (i + 1) / count * kLowRankTileColumns);
    LowRankSlice& slice = plan->slice[plan->slices++];
    slice.member = member;
    slice.column = static_cast<int32_t>(begin);
    slice.columns = static_cast<int32_t>(end - begin);
    if (problem.sums_columns && count > 1) {
      slice.column_sums = plan->floats;
      plan->floats += problem.rows * problem.rank;
    }
    plan->widest =
        std::max(plan->widest, static_cast<int32_t>(CeilDiv(end - begin, kLowRankTileColumns)) *
                                   kLowRankTileColumns);
  }
  return true;
}

}  // namespace

LowRankPlan PlanLowRank(const LowRankProblem& problem, int64_t workspace_bytes) {
  LowRankPlan plan;
  for (int32_t member = 0; member < problem.members; ++member) {
    if (!AddSlices(problem, member, &plan)) return {};
  }
  const int64_t tiles = CeilDiv(problem.rows, kLowRankTileRows);
  const int64_t load = SmallestLoad(plan, tiles, problem.blocks);
  for (int i = 0; i < plan.slices; ++i) {
    LowRankSlice& slice = plan.slice[i];
    slice.tiles = static_cast<int32_t>(std::min(tiles, load / LowRankTileCost(slice.columns)));
    slice.splits = static_cast<int32_t>(CeilDiv(tiles, slice.tiles));
    slice.first_block = plan.blocks;
    plan.blocks += slice.splits;
    slice.row_sums = plan.floats;
    if (problem.sums_rows) plan.floats += slice.splits * slice.columns * problem.rank;
  }
  if (plan.floats * int64_t{sizeof(float)} > workspace_bytes) return {};
  return plan;
}

}  // namespace coxswain::kernels::cuda
