#include "kernels/activations/gates.h"

#include <limits>
#include <tuple>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gpu_geglu_test {
namespace {

// Parameter: type, and whether it is the tanh form.
class GegluGpuTest : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType dtype_ = std::get<0>(GetParam());
  bool tanh_ = std::get<1>(GetParam());

  GegluSpec Spec(int64_t n) const { return {.dtype = dtype_, .intermediate = n, .tanh = tanh_}; }
  Floats Forward(int64_t rows, int64_t n, const Floats& gate_up) const {
    const DeviceTensor device(dtype_, gate_up), y(dtype_, rows * n);
    GegluForward({.spec = Spec(n), .rows = rows, .gate_up = device.data(), .y = y.data()},
                 TestStream());
    return y.Read();
  }
  Floats Backward(int64_t rows, int64_t n, const Floats& gate_up, const Floats& dy) const {
    const DeviceTensor gradient(dtype_, gate_up), kept(dtype_, gate_up), device_dy(dtype_, dy);
    const DeviceTensor elsewhere(dtype_, rows * 2 * n);
    GegluBackwardArgs args = {
        .spec = Spec(n), .rows = rows, .dy = device_dy.data(), .gate_up = gradient.data()};
    GegluBackward(args, TestStream());
    args.gate_up = kept.data();
    args.gradient = elsewhere.data();
    GegluBackward(args, TestStream());
    EXPECT_TRUE(SameBits(elsewhere.Read(), gradient.Read()) && SameBits(kept.Read(), gate_up));
    return gradient.Read();
  }
  void ExpectReference(int64_t rows, int64_t n) const;
};

// float32: s and P are off by 6 u, the slope by 60 u near |a| = 3.5, 14 of its size 1 + |a|
// (kernels/cuda/activations/gelu.cuh), then 2 products. Then one rounding to the type.
void GegluGpuTest::ExpectReference(int64_t rows, int64_t n) const {
  Floats gate_up = Normal(rows * 2 * n, 1, dtype_, 4.0f);
  const Floats extremes = {90.0f, -90.0f, -1000.0f, 1000.0f, 0.0f, -1e30f, 1e30f};
  for (size_t t = 0; t < extremes.size() && t < Size(rows); ++t) {
    gate_up[t * Size(2 * n)] = Round(extremes[t], dtype_);
  }
  const Floats dy = Normal(rows * n, 2, dtype_);
  const Floats y = Forward(rows, n, gate_up), gradient = Backward(rows, n, gate_up, dy);
  EXPECT_TRUE(SameBits(y, Forward(rows, n, gate_up)));
  EXPECT_TRUE(SameBits(gradient, Backward(rows, n, gate_up, dy)));
  const double unit = kUnit(DType::kFloat32);
  const double rounding = dtype_ == DType::kFloat32 ? 0 : kUnit(dtype_);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = Size(t * 2 * n + j);
      const double a = gate_up[at], b = gate_up[at + Size(n)], d = dy[Size(t * n + j)];
      const auto want = reference::GegluBackward(d, a, b, tanh_);
      const double want_y = reference::Geglu(a, b, tanh_);
      const double size = (1 + std::abs(a)) * (1 + std::abs(b));
      ASSERT_NEAR(y[Size(t * n + j)], want_y, 10 * unit * size + rounding * std::abs(want_y)) << a;
      ASSERT_NEAR(gradient[at], want.gate,
                  20 * unit * size * std::abs(d) + rounding * std::abs(want.gate))
          << a;
      ASSERT_NEAR(gradient[at + Size(n)], want.up,
                  10 * unit * size * std::abs(d) + rounding * std::abs(want.up))
          << a;
    }
  }
}

TEST_P(GegluGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 97, 1031}) ExpectReference(7, n);
}

TEST_P(GegluGpuTest, MatchesReferenceForModels) { ExpectReference(33, 16384); }

TEST_P(GegluGpuTest, BackwardGivesTheForwardOnceMoreInPlaceOfDy) {
  const int64_t rows = 3, n = 1032;
  const Floats gate_up = Normal(rows * 2 * n, 1, dtype_, 2.0f), dy = Normal(rows * n, 2, dtype_);
  const DeviceTensor gradient(dtype_, gate_up), y(dtype_, dy);
  GegluBackward(
      {.spec = Spec(n), .rows = rows, .dy = y.data(), .gate_up = gradient.data(), .y = y.data()},
      TestStream());
  EXPECT_TRUE(SameBits(gradient.Read(), Backward(rows, n, gate_up, dy)));
  EXPECT_TRUE(SameBits(y.Read(), Forward(rows, n, gate_up)));
}

TEST_P(GegluGpuTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(80, 1.0f);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(1, 40, gate_up), gradient = Backward(1, 40, gate_up, Floats(40, 1.0f));
  for (size_t j = 0; j < 40; ++j) {
    EXPECT_EQ(std::isnan(y[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j + 40]), j == 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, GegluGpuTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_tanh" : "_erf");
                         });

}  // namespace
}  // namespace gpu_geglu_test
}  // namespace coxswain::kernels
