#include "kernels/tensors/whole_tensors.h"

#include "kernels/philox.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_random_fill_test {
namespace {

class RandomFillGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Fill(RandomFillKind kind, double value, int64_t count, int64_t first = 0) const {
    const DeviceTensor out(dtype_, count);
    RandomFill({.dtype = dtype_,
                .kind = kind,
                .value = value,
                .key = {11, 12},
                .counter = {13, 14},
                .first = first,
                .count = count,
                .out = out.data()},
               TestStream());
    return out.Read();
  }
  static double Uniform(int64_t i, int64_t word) {
    const PhiloxWords words = Philox({{static_cast<uint32_t>(i / 4), 0, 13, 14}}, 11, 12);
    return static_cast<double>(words.word[word] >> 8) * 0x1p-24;
  }
  static double Normal(int64_t i) {
    const int64_t pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(i, pair)));
    const double angle = 2.0 * M_PI * Uniform(i, pair + 1);
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
};

TEST_P(RandomFillGpuTest, EqualsTheFormula) {
  for (const int64_t count : {0, 1, 2, 3, 5, 1031, 1200003}) {
    const Floats uniform = Fill(RandomFillKind::kUniform, 0.25, count);
    const Floats normal = Fill(RandomFillKind::kNormal, 0.02, count);
    EXPECT_EQ(Fill(RandomFillKind::kConstant, 0.3, count),
              Floats(Size(count), Round(0.3f, dtype_)));
    int64_t different = 0;
    for (int64_t i = 0; i<count; i += count> 100000 ? 97 : 1) {
      const double u = 0.25 * (2.0 * Uniform(i, i % 4) - 1.0);
      ASSERT_EQ(uniform[Size(i)], Round(static_cast<float>(u), dtype_)) << i;
      const double want = 0.02 * Normal(i);
      // The double functions of the device differ in the last bits: another float once in 2^28.
      different += normal[Size(i)] != Round(static_cast<float>(want), dtype_) ? 1 : 0;
      ASSERT_NEAR(normal[Size(i)], want, 2 * kUnit(dtype_) * std::abs(want) + 1e-17) << i;
    }
    EXPECT_LE(different, 1);
  }
}

TEST_P(RandomFillGpuTest, ARangeIsThatOfTheWhole) {
  const Floats whole = Fill(RandomFillKind::kNormal, 0.02, 3000);
  for (const int64_t first : {1, 2, 3, 4, 1003}) {
    for (const int64_t count : {1, 2, 5, 998}) {
      const Floats range = Fill(RandomFillKind::kNormal, 0.02, count, first);
      EXPECT_TRUE(std::equal(range.begin(), range.end(), whole.begin() + first)) << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RandomFillGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_random_fill_test
}  // namespace coxswain::kernels
