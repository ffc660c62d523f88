#include "kernels/products/bias.h"

#include <tuple>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_bias_test {
namespace {

// Parameter: type of dy, type of dbias.
class BiasGpuTest : public testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  DType dtype_ = std::get<0>(GetParam()), grad_dtype_ = std::get<1>(GetParam());

  Floats Backward(int64_t rows, int64_t columns, int64_t ldy, const Floats& dy,
                  const Floats& before) const {
    const BiasSpec spec{.dtype = dtype_, .grad_dtype = grad_dtype_};
    const DeviceTensor device_dy(dtype_, dy), dbias(grad_dtype_, before);
    const Scratch scratch(BiasBackwardWorkspaceBytes(spec, rows, columns));
    BiasBackward({.spec = spec,
                  .rows = rows,
                  .columns = columns,
                  .dy = device_dy.data(),
                  .ldy = ldy,
                  .dbias = dbias.data(),
                  .workspace = scratch.workspace()},
                 TestStream());
    return dbias.Read();
  }

  // A value passes through at most 32 additions of a warp, 8 of the warps, chunks / 8 + 8 of the
  // chunks and the last one.
  void ExpectReference(int64_t rows, int64_t columns, int64_t ldy) const {
    const Floats dy = Normal(rows * ldy, 1, dtype_), before = Normal(columns, 2, grad_dtype_);
    const Floats got = Backward(rows, columns, ldy, dy, before);
    EXPECT_TRUE(SameBits(got, Backward(rows, columns, ldy, dy, before)));
    const double additions = 32 + 8 + static_cast<double>(rows) / 256 / 8 + 8 + 2;
    for (int64_t j = 0; j < columns; ++j) {
      double want = before[Size(j)], magnitude = std::abs(want);
      for (int64_t t = 0; t < rows; ++t) {
        want += dy[Size(t * ldy + j)];
        magnitude += std::abs(dy[Size(t * ldy + j)]);
      }
      ASSERT_NEAR(got[Size(j)], want,
                  additions * kUnit(DType::kFloat32) * magnitude +
                      1.001 * kUnit(grad_dtype_) * std::abs(want))
          << rows << " x " << columns << " ldy " << ldy << " column " << j;
    }
  }
};

TEST_P(BiasGpuTest, SumsColumnsForEveryTail) {
  for (const int64_t columns : {1, 7, 8, 255, 256, 264, 1031}) {
    for (const int64_t rows : {1, 31, 256, 257, 1031}) ExpectReference(rows, columns, columns);
  }
}

TEST_P(BiasGpuTest, SumsColumnsOfModels) {
  ExpectReference(8192, 1152, 1152);
  ExpectReference(515, 4608, 4608);
}

TEST_P(BiasGpuTest, ReadsAPartOfEachRow) {
  ExpectReference(300, 64, 96);
  ExpectReference(300, 64, 97);
  ExpectReference(300, 63, 96);
}

TEST_P(BiasGpuTest, TallMatricesKeepTo1024Chunks) {
  ExpectReference(300007, 3, 3);
  EXPECT_LE(BiasBackwardWorkspaceBytes({}, int64_t{1} << 24, 100), 4 * 1024 * 100);
  Floats before = {1, 2, 3};
  EXPECT_TRUE(SameBits(Backward(0, 3, 3, {}, before), before));
}

INSTANTIATE_TEST_SUITE_P(DTypes, BiasGpuTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_" +
                                  Name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace gpu_bias_test
}  // namespace coxswain::kernels
