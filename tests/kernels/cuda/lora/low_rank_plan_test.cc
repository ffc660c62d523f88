#include "kernels/cuda/lora/low_rank_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace coxswain::kernels::cuda {
namespace gpu_low_rank_plan_test {
namespace {

constexpr int64_t kWorkspace = int64_t{64} << 20;

LowRankProblem Problem(int64_t rows, std::vector<int64_t> columns, int64_t slice_tiles) {
  LowRankProblem problem{.rows = rows,
                         .rank = 16,
                         .members = static_cast<int32_t>(columns.size()),
                         .slice_tiles = slice_tiles,
                         .sums_columns = true,
                         .sums_rows = true,
                         .blocks = 132};
  std::copy(columns.begin(), columns.end(), problem.columns);
  return problem;
}

// Slices tile the columns of every member in order, their blocks all rows; partial sums do not
// overlap.
void ExpectCovers(const LowRankProblem& problem, const LowRankPlan& plan) {
  const int64_t tiles = (problem.rows + kLowRankTileRows - 1) / kLowRankTileRows;
  std::vector<int64_t> covered(static_cast<size_t>(problem.members), 0);
  int64_t block = 0, columns_end = 0, rows_end = 0;
  for (int i = 0; i < plan.slices; ++i) {
    const LowRankSlice& slice = plan.slice[i];
    int64_t& column = covered[static_cast<size_t>(slice.member)];
    EXPECT_EQ(slice.column, column);
    column += slice.columns;
    EXPECT_LE(slice.columns, problem.slice_tiles * kLowRankTileColumns);
    EXPECT_LE(slice.columns, plan.widest);
    EXPECT_EQ(slice.first_block, block);
    block += slice.splits;
    EXPECT_GE(int64_t{slice.splits} * slice.tiles, tiles);
    EXPECT_LT(int64_t{slice.splits - 1} * slice.tiles, tiles) << "no block without rows";
    if (slice.column_sums >= 0) {
      EXPECT_EQ(slice.column_sums, columns_end);
      columns_end += problem.rows * problem.rank;
    } else {
      EXPECT_EQ(slice.columns, problem.columns[slice.member]);
    }
    if (i == 0) rows_end = slice.row_sums;
    EXPECT_EQ(slice.row_sums, rows_end);
    rows_end += int64_t{slice.splits} * slice.columns * problem.rank;
  }
  for (size_t j = 0; j < covered.size(); ++j) EXPECT_EQ(covered[j], problem.columns[j]);
  EXPECT_EQ(plan.blocks, block);
  EXPECT_LE(columns_end, plan.slice[0].row_sums);
  EXPECT_EQ(rows_end, plan.floats);
}

TEST(LowRankPlanTest, CoversEveryElementOnce) {
  for (const int64_t rows : {1, 64, 65, 8192, 32768}) {
    for (const std::vector<int64_t>& columns :
         {std::vector<int64_t>{8}, {896, 128, 128}, {3584, 512, 512}, {4864, 4864}}) {
      for (const int64_t slice_tiles : {2, 5, 8}) {
        const LowRankProblem problem = Problem(rows, columns, slice_tiles);
        const LowRankPlan plan = PlanLowRank(problem, 4 * kWorkspace);
        ASSERT_GT(plan.slices, 0);
        ExpectCovers(problem, plan);
        EXPECT_LE(plan.blocks, std::max<int64_t>(132, plan.slices));
      }
    }
  }
}

TEST(LowRankPlanTest, BlocksOfModelShapesAreEven) {
  for (const std::vector<int64_t>& columns :
       {std::vector<int64_t>{896}, {896, 128, 128}, {4864, 4864}}) {
    const LowRankPlan plan = PlanLowRank(Problem(32768, columns, 8), kWorkspace);
    int64_t most = 0, all = 0;
    for (int i = 0; i < plan.slices; ++i) {
      const int64_t cost = LowRankTileCost(plan.slice[i].columns);
      most = std::max(most, cost * plan.slice[i].tiles);
      all += cost * (32768 / kLowRankTileRows);
    }
    EXPECT_GE(static_cast<double>(all), 0.9 * 132 * static_cast<double>(most));
  }
}

// A block of a narrow member has more rows than one of a wide member, though not as many more as it
// has fewer columns.
TEST(LowRankPlanTest, PartsOfTilesCostAsMuchAsWholeOnes) {
  EXPECT_EQ(LowRankTileCost(8), 3);
  EXPECT_EQ(LowRankTileCost(256), 3);
  EXPECT_EQ(LowRankTileCost(257), 5);
  const LowRankPlan plan = PlanLowRank(Problem(32768, {896, 128, 128}, 8), kWorkspace);
  ASSERT_EQ(plan.slices, 3);
  EXPECT_EQ(plan.slice[0].tiles, 7);
  EXPECT_EQ(plan.slice[1].tiles, plan.slice[2].tiles);
  EXPECT_LE(plan.slice[1].tiles, 7 * LowRankTileCost(896) / LowRankTileCost(128));
}

TEST(LowRankPlanTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(PlanLowRank(Problem(64, {18944, 18944, 18944}, 2), kWorkspace).slices, 0);
  EXPECT_EQ(PlanLowRank(Problem(1 << 20, {4864, 4864}, 2), kWorkspace).slices, 0);
}

}  // namespace
}  // namespace gpu_low_rank_plan_test
}  // namespace coxswain::kernels::cuda
