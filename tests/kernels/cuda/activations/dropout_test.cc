#include "kernels/activations/dropout.h"

#include "kernels/philox.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_dropout_test {
namespace {

class DropoutGpuTest : public testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kRows = 70;
  static constexpr uint32_t kStep = 3, kSite = 12;
  DType dtype_ = GetParam();
  std::vector<uint32_t> bins_, positions_;

  void SetUp() override {
    for (uint32_t t = 0; t < kRows; ++t) {
      bins_.push_back(100 + t / 32);
      positions_.push_back(t % 32);
    }
  }
  // `offset` elements between an aligned address and x and y.
  Floats Apply(int64_t columns, float rate, const Floats& x, const Floats* y, int64_t offset = 0) {
    const DeviceValues<uint32_t> step({kStep}), bins(bins_), positions(positions_);
    Floats shifted(Size(offset), 0.0f), before(shifted);
    shifted.insert(shifted.end(), x.begin(), x.end());
    if (y != nullptr) before.insert(before.end(), y->begin(), y->end());
    before.resize(shifted.size(), std::nanf(""));
    const DeviceTensor in(dtype_, shifted), out(dtype_, before);
    const int64_t bytes = offset * DTypeBytes(dtype_);
    DropoutApply({.spec = {.dtype = dtype_, .columns = columns, .rate = rate},
                  .mask = {.key = {7, 9},
                           .site = kSite,
                           .step = step.data(),
                           .bins = bins.data(),
                           .positions = positions.data()},
                  .rows = kRows,
                  .x = static_cast<const char*>(in.data()) + bytes,
                  .y = static_cast<char*>(out.data()) + bytes,
                  .accumulate = y != nullptr},
                 TestStream());
    Floats got = out.Read();
    return {got.begin() + offset, got.end()};
  }
  static bool Kept(uint32_t t, uint32_t c, float rate) {
    const PhiloxWords words = Philox({{kStep, kSite << 16 | c / 4, 100 + t / 32, t % 32}}, 7, 9);
    return static_cast<float>(words.word[c % 4] >> 8) * 0x1p-24f >= rate;
  }
};

TEST_P(DropoutGpuTest, DropsWhatPhiloxSaysForEveryTail) {
  for (const int64_t columns : {1, 3, 4, 7, 8, 131, 896}) {
    const float rate = 0.3f;
    const Floats x = Normal(kRows * columns, 1, dtype_), y = Normal(kRows * columns, 2, dtype_);
    const Floats got = Apply(columns, rate, x, nullptr), added = Apply(columns, rate, x, &y);
    EXPECT_TRUE(SameBits(got, Apply(columns, rate, x, nullptr, 1))) << "unaligned";
    for (int64_t i = 0; i < kRows * columns; ++i) {
      const auto t = static_cast<uint32_t>(i / columns), c = static_cast<uint32_t>(i % columns);
      const float dropped = Kept(t, c, rate) ? x[Size(i)] * (1.0f / (1.0f - rate)) : 0.0f;
      ASSERT_EQ(got[Size(i)], Round(dropped, dtype_)) << "row " << t << " column " << c;
      // Two roundings, of the sum and of the product that a fused operation leaves out.
      const double want = static_cast<double>(y[Size(i)]) + dropped;
      ASSERT_NEAR(added[Size(i)], want,
                  2 * 0x1p-24 * (std::abs(y[Size(i)]) + std::abs(dropped)) +
                      kUnit(dtype_) * std::abs(want));
    }
  }
}

TEST_P(DropoutGpuTest, RateZeroIsTheIdentityInPlaceAndNot) {
  const Floats x = Normal(kRows * 24, 1, dtype_);
  EXPECT_TRUE(SameBits(Apply(24, 0.0f, x, nullptr), x));
  const DeviceTensor device(dtype_, x);
  DropoutApply({.spec = {.dtype = dtype_, .columns = 24},
                .rows = kRows,
                .x = device.data(),
                .y = device.data()},
               TestStream());
  EXPECT_TRUE(SameBits(device.Read(), x));
  EXPECT_FALSE(DropoutSupports({.dtype = dtype_, .columns = 4, .rate = 1.0f}));
  EXPECT_FALSE(DropoutSupports({.dtype = dtype_, .columns = 262145, .rate = 0.1f}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, DropoutGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_dropout_test
}  // namespace coxswain::kernels
