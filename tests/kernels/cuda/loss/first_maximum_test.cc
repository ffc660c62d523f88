// The first maximum of a row, and whether it is the target's.
#include <algorithm>
#include <limits>

#include "kernels/loss/cross_entropy.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/kernels/loss/target_hits_cases.h"

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

namespace gpu_target_hits_test {
namespace {

class TargetHitsGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  // NaN between rows of `stride` elements; 0: nothing between them.
  Floats Hits(const Floats& logits, const std::vector<int32_t>& targets, int64_t stride = 0) {
    const auto rows = static_cast<int64_t>(targets.size());
    const int64_t vocab = static_cast<int64_t>(logits.size()) / rows;
    const DeviceTensor z(dtype_, SpreadRows(logits, vocab, stride == 0 ? vocab : stride,
                                            std::numeric_limits<float>::quiet_NaN()));
    const DeviceTensor hits(DType::kFloat32, rows);
    const DeviceValues<int32_t> device_targets(targets);
    TargetHits({.spec = {.dtype = dtype_, .vocab = vocab},
                .rows = rows,
                .logits = z.data(),
                .ld = stride,
                .targets = device_targets.data(),
                .hits = hits.floats()},
               TestStream());
    return hits.Read();
  }
};

TEST_P(TargetHitsGpuTest, EqualsTheFirstMaximumForEveryTail) {
  for (const int64_t vocab : {1, 2, 7, 8, 9, 512, 4095, 4096, 4104, 50257, 151936}) {
    const int64_t rows = 24;
    const TargetHitsCase c = RoundedTargetHits(Normal(rows * vocab, 1, dtype_), vocab);
    EXPECT_TRUE(SameBits(Hits(c.logits, c.targets), c.hits)) << vocab;
    for (const int64_t stride : {(vocab + 7) / 8 * 8, vocab + 1}) {
      EXPECT_TRUE(SameBits(Hits(c.logits, c.targets, stride), c.hits)) << vocab << " " << stride;
    }
  }
}

TEST_P(TargetHitsGpuTest, IgnoredRowsAndRowsWithNaNAreNoHits) {
  const TargetHitsCase c = NoTargetHits();
  EXPECT_EQ(Hits(c.logits, c.targets), c.hits);
}

INSTANTIATE_TEST_SUITE_P(DTypes, TargetHitsGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_target_hits_test

}  // namespace coxswain::kernels
