#include "kernels/products/bias.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace bias_test {
namespace {

TEST(BiasTest, SumsColumnsOntoTheGradient) {
  for (const int64_t rows : {0, 1, 63, 64, 65, 200}) {
    const int64_t columns = 13, stride = 17;
    const Floats dy = Normal(rows * stride + 1, 5);
    Floats dbias = Normal(columns, 6);
    Doubles expected = Double(dbias);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < columns; ++j) expected[Size(j)] += dy[Size(t * stride + j)];
    }
    Scratch scratch(BiasBackwardWorkspaceBytes({}, rows, columns));
    BiasBackward({.spec = {},
                  .rows = rows,
                  .columns = columns,
                  .dy = dy.data(),
                  .ldy = stride,
                  .dbias = dbias.data(),
                  .workspace = scratch.view()},
                 nullptr);
    // 64 + rows/64 + 1 additions of partial sums that stay below 5 rows.
    const double n = static_cast<double>(rows);
    ExpectWithin(dbias, expected, (65 + n / 64) * kUnit * (5 * n + 5), "dbias");
  }
}

// Invariant kernels-1.
TEST(BiasTest, RefusesTooSmallAWorkspace) {
  Floats dy(10, 1.0f), dbias(10, 0.0f);
  EXPECT_THROW(BiasBackward({.spec = {},
                             .rows = 1,
                             .columns = 10,
                             .dy = dy.data(),
                             .ldy = 10,
                             .dbias = dbias.data(),
                             .workspace = {}},
                            nullptr),
               std::invalid_argument);
}

}  // namespace
}  // namespace bias_test
}  // namespace coxswain::kernels
