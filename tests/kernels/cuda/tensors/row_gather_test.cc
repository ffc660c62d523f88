#include "kernels/tensors/rows.h"

#include <algorithm>
#include <numeric>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_row_gather_test {
namespace {

class RowGatherGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  // `rows` different rows of `tall`, every third left out.
  static std::vector<int32_t> Index(int64_t rows, int64_t tall) {
    std::vector<int32_t> index(Size(tall));
    std::iota(index.begin(), index.end(), 0);
    std::shuffle(index.begin(), index.end(), std::mt19937(1));
    index.resize(Size(rows));
    for (size_t i = 2; i < index.size(); i += 3) index[i] = -1;
    return index;
  }
};

TEST_P(RowGatherGpuTest, GathersAndScattersForEveryTail) {
  for (const int64_t columns : {1, 2, 7, 8, 9, 24, 896, 3584}) {
    const int64_t rows = 67, tall = 131;
    const std::vector<int32_t> index = Index(rows, tall);
    const DeviceValues<int32_t> device_index(index);
    const Floats matrix = Normal(tall * columns, 1, dtype_),
                 added = Normal(rows * columns, 2, dtype_);
    const DeviceTensor in(dtype_, matrix), out(dtype_, rows * columns);
    const DeviceTensor addend(dtype_, added), target(dtype_, matrix);
    const RowGatherSpec spec{.dtype = dtype_, .columns = columns};
    GatherRows({.spec = spec,
                .rows = rows,
                .index = device_index.data(),
                .in = in.data(),
                .out = out.data()},
               TestStream());
    ScatterAddRows({.spec = spec,
                    .rows = rows,
                    .index = device_index.data(),
                    .in = addend.data(),
                    .out = target.data()},
                   TestStream());
    Floats gathered(added.size(), 0.0f), scattered = matrix;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = index[Size(i)];
      for (int64_t j = 0; j < columns && row >= 0; ++j) {
        const size_t from = Size(i * columns + j), to = Size(row * columns + j);
        gathered[from] = matrix[to];
        scattered[to] = Round(matrix[to] + added[from], dtype_);
      }
    }
    EXPECT_TRUE(SameBits(out.Read(), gathered)) << columns;
    EXPECT_TRUE(SameBits(target.Read(), scattered)) << columns;
  }
}

TEST_P(RowGatherGpuTest, NoRowsDoNothing) {
  GatherRows({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
  ScatterAddRows({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
}

INSTANTIATE_TEST_SUITE_P(DTypes, RowGatherGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_row_gather_test
}  // namespace coxswain::kernels
