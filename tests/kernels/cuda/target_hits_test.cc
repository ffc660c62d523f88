#include "kernels/target_hits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cross_entropy.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace {

class TargetHitsGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Hits(const Floats& logits, const std::vector<int32_t>& targets) {
    const auto rows = static_cast<int64_t>(targets.size());
    const DeviceTensor z(dtype_, logits), hits(DType::kFloat32, rows);
    const DeviceValues<int32_t> device_targets(targets);
    TargetHits({.spec = {.dtype = dtype_, .vocab = static_cast<int64_t>(logits.size()) / rows},
                .rows = rows,
                .logits = z.data(),
                .targets = device_targets.data(),
                .hits = hits.floats()},
               TestStream());
    return hits.Read();
  }
};

TEST_P(TargetHitsGpuTest, EqualsTheFirstMaximumForEveryTail) {
  for (const int64_t vocab : {1, 2, 7, 8, 9, 512, 4095, 4096, 4104, 50257, 151936}) {
    const int64_t rows = 24;
    Floats logits = Normal(rows * vocab, 1, dtype_);
    for (float& z : logits) z = std::round(z);  // many equal maxima
    std::vector<int32_t> targets(Size(rows));
    Floats expected(Size(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = logits.data() + i * vocab;
      const auto first = static_cast<int32_t>(std::max_element(row, row + vocab) - row);
      targets[Size(i)] = i % 2 == 0 ? first : static_cast<int32_t>(i * 31 % vocab);
      expected[Size(i)] = targets[Size(i)] == first ? 1.0f : 0.0f;
    }
    EXPECT_TRUE(SameBits(Hits(logits, targets), expected)) << vocab;
  }
}

TEST_P(TargetHitsGpuTest, IgnoredRowsAndRowsWithNaNAreNoHits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats logits = {5, 1, nan, 5, nan, 5, nan, 1, 5, 1};
  EXPECT_EQ(Hits(logits, {kIgnoreTarget, 1, 1, 0, 2}), (Floats{0, 0, 0, 0, 0}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, TargetHitsGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace coxswain::kernels
