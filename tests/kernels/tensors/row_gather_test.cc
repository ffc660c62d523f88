#include "kernels/tensors/rows.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace row_gather_test {
namespace {

TEST(RowGatherTest, ScatterAddOfGatheredRowsDoublesThem) {
  const RowGatherSpec spec{.columns = 9};
  const std::vector<int32_t> index = {4, 0, 5};
  Floats tall = Normal(54, 1), rows(27);
  const Floats before = tall;
  GatherRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = tall.data(), .out = rows.data()},
      nullptr);
  ScatterAddRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = rows.data(), .out = tall.data()},
      nullptr);
  for (size_t i = 0; i < 54; ++i) {
    const bool taken = i / 9 == 4 || i / 9 == 0 || i / 9 == 5;
    EXPECT_EQ(tall[i], taken ? 2 * before[i] : before[i]);
  }
  GatherRows({.spec = spec, .rows = 0, .index = nullptr, .in = tall.data(), .out = nullptr},
             nullptr);
}

TEST(RowGatherTest, NoRowReadsAsZerosAndReceivesNothing) {
  const RowGatherSpec spec{.columns = 3};
  const std::vector<int32_t> index = {-1, 1, -1};
  const Floats tall = Normal(6, 1);
  Floats rows(9, std::nanf("")), target = tall;
  GatherRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = tall.data(), .out = rows.data()},
      nullptr);
  EXPECT_TRUE(SameBits(rows, {0, 0, 0, tall[3], tall[4], tall[5], 0, 0, 0}));
  const Floats added(9, 1.0f);
  ScatterAddRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = added.data(), .out = target.data()},
      nullptr);
  EXPECT_TRUE(SameBits(target, {tall[0], tall[1], tall[2], tall[3] + 1, tall[4] + 1, tall[5] + 1}));
}

}  // namespace
}  // namespace row_gather_test
}  // namespace coxswain::kernels
