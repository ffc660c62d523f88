#include "kernels/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_argmax_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ArgmaxGpuTest : public testing::TestWithParam<DType> {
 protected:
  // Infinity between rows of `stride` elements; 0: nothing between them.
  std::vector<int32_t> Columns(const Floats& rows, int64_t columns, int64_t stride = 0) {
    const DeviceTensor values(GetParam(),
                              SpreadRows(rows, columns, stride == 0 ? columns : stride, kInfinity));
    const DeviceValues<int32_t> found(
        std::vector<int32_t>(rows.size() / Size(columns), int32_t{-7}));
    Argmax({.spec = {.dtype = GetParam(), .columns = columns},
            .rows = static_cast<int64_t>(rows.size()) / columns,
            .values = values.data(),
            .ld = stride,
            .columns = found.data()},
           TestStream());
    return found.Read();
  }
};

TEST_P(ArgmaxGpuTest, IsTheFirstMaximumForEveryTail) {
  for (const int64_t columns : {1, 2, 7, 8, 9, 1024, 4095, 4096, 8200, 50257, 151936}) {
    const Floats values = Normal(9 * columns, 1, GetParam());
    std::vector<int32_t> want;
    for (auto row = values.begin(); row != values.end(); row += columns) {
      want.push_back(static_cast<int32_t>(std::max_element(row, row + columns) - row));
    }
    EXPECT_EQ(Columns(values, columns), want) << columns;
    for (const int64_t stride : {(columns + 7) / 8 * 8, columns + 1}) {
      EXPECT_EQ(Columns(values, columns, stride), want) << columns << " " << stride;
    }
  }
}

TEST_P(ArgmaxGpuTest, OfEqualMaximaTheFirstCountsAndNaNHasNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Columns({1, 3, 3, 0, -kInfinity, -kInfinity, -kInfinity, -kInfinity, 1, 2, nan, 3}, 4),
            (std::vector<int32_t>{1, 0, -1}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, ArgmaxGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_argmax_test
}  // namespace coxswain::kernels
