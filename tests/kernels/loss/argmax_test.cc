#include "kernels/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace argmax_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// `padding` infinite elements between rows.
std::vector<int32_t> Columns(const Floats& rows, int64_t columns, int64_t padding = 0) {
  const Floats values = SpreadRows(rows, columns, columns + padding, kInfinity);
  std::vector<int32_t> found(rows.size() / Size(columns), -7);
  const ExpectNoAllocation launches;
  Argmax({.spec = {.columns = columns},
          .rows = static_cast<int64_t>(found.size()),
          .values = values.data(),
          .ld = padding == 0 ? 0 : columns + padding,
          .columns = found.data()},
         nullptr);
  return found;
}

TEST(ArgmaxTest, IsTheFirstMaximumForEveryTail) {
  for (const int64_t columns : {1, 2, 7, 15, 16, 17, 97, 1023, 1025, 3001}) {
    const Floats values = Normal(40 * columns, 1);
    std::vector<int32_t> want;
    for (auto row = values.begin(); row != values.end(); row += columns) {
      want.push_back(static_cast<int32_t>(std::max_element(row, row + columns) - row));
    }
    EXPECT_EQ(Columns(values, columns), want) << columns;
    EXPECT_EQ(Columns(values, columns, 3), want) << columns;
  }
}

TEST(ArgmaxTest, OfEqualMaximaTheFirstCounts) {
  EXPECT_EQ(Columns({1, 3, 3, 0, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, 4),
            (std::vector<int32_t>{1, 0}));
}

// Invariant kernels-6.
TEST(ArgmaxTest, ARowWithNaNHasNone) {
  Floats values = Normal(3 * 100, 1);
  values[99] = kNaN;
  values[100] = kNaN;
  const std::vector<int32_t> found = Columns(values, 100);
  EXPECT_EQ(found[0], -1);
  EXPECT_EQ(found[1], -1);
  EXPECT_GE(found[2], 0);
}

TEST(ArgmaxTest, NoRowsDoNothing) { Argmax({.spec = {.columns = 8}}, nullptr); }

}  // namespace
}  // namespace argmax_test
}  // namespace coxswain::kernels
