#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gpu_clamped_swiglu_test {
namespace {

constexpr float kAlpha = 1.702f, kLimit = 7.0f;
constexpr reference::ClampedGate<double> kGate{kAlpha, kLimit};

class ClampedSwigluGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  ClampedSwigluSpec SpecOf(int64_t n) const {
    return {.dtype = dtype_, .intermediate = n, .alpha = kAlpha, .limit = kLimit};
  }
  Floats Forward(int64_t rows, int64_t n, const Floats& gate_up) const {
    const DeviceTensor in(dtype_, gate_up), y(dtype_, rows * n);
    ClampedSwigluForward({.spec = SpecOf(n), .rows = rows, .gate_up = in.data(), .y = y.data()},
                         TestStream());
    return y.Read();
  }
  // In place, which is held against elsewhere with the output once more.
  Floats Backward(int64_t rows, int64_t n, const Floats& gate_up, const Floats& dy) const {
    const DeviceTensor gradient(dtype_, gate_up), kept(dtype_, gate_up), device_dy(dtype_, dy);
    const DeviceTensor elsewhere(dtype_, rows * 2 * n), again(dtype_, dy);
    ClampedSwigluBackwardArgs args{
        .spec = SpecOf(n), .rows = rows, .dy = device_dy.data(), .gate_up = gradient.data()};
    ClampedSwigluBackward(args, TestStream());
    args.dy = args.y = again.data();
    args.gate_up = kept.data();
    args.gradient = elsewhere.data();
    ClampedSwigluBackward(args, TestStream());
    EXPECT_TRUE(SameBits(elsewhere.Read(), gradient.Read()) && SameBits(kept.Read(), gate_up));
    EXPECT_TRUE(SameBits(again.Read(), Forward(rows, n, gate_up)));
    return gradient.Read();
  }
  void ExpectReference(int64_t rows, int64_t n) const;
};

// As of SwiGLU (swiglu_test.cc) with values that the clamp bounds, a product with alpha and a sum
// more; then one rounding to the type.
void ClampedSwigluGpuTest::ExpectReference(int64_t rows, int64_t n) const {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(n));
  Floats gate_up = Normal(rows * 2 * n, 1, dtype_, 5.0f);
  const Floats limits = {kLimit, 7.0625f, -1000.0f, 1000.0f, -kLimit, 0.0f, -7.0625f};
  for (size_t t = 0; t < limits.size() && t < Size(rows); ++t) {
    gate_up[t * Size(2 * n)] = limits[t];
    gate_up[t * Size(2 * n) + Size(n)] = limits[(t + 1) % limits.size()];
  }
  const Floats dy = Normal(rows * n, 2, dtype_);
  const Floats y = Forward(rows, n, gate_up), gradient = Backward(rows, n, gate_up, dy);
  EXPECT_TRUE(SameBits(y, Forward(rows, n, gate_up)));
  const double unit = kUnit(DType::kFloat32);
  const double rounding = dtype_ == DType::kFloat32 ? 0 : kUnit(dtype_);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = Size(t * 2 * n + j);
      const double a = gate_up[at], b = gate_up[at + Size(n)], d = dy[Size(t * n + j)];
      const auto want = reference::ClampedSwigluBackward(kGate, d, a, b);
      const double want_y = reference::ClampedSwiglu(kGate, a, b);
      const double size = (1 + kAlpha * std::min(std::abs(a), 20.0)) * (2 + std::abs(b));
      ASSERT_NEAR(y[Size(t * n + j)], want_y, 14 * unit * size + rounding * std::abs(want_y))
          << "row " << t << " column " << j << " gate " << a << " up " << b;
      ASSERT_NEAR(gradient[at], want.gate,
                  28 * unit * size * std::abs(d) + rounding * std::abs(want.gate))
          << "row " << t << " column " << j << " gate " << a << " up " << b;
      ASSERT_NEAR(gradient[at + Size(n)], want.up,
                  14 * unit * size * std::abs(d) + rounding * std::abs(want.up))
          << "row " << t << " column " << j << " gate " << a << " up " << b;
    }
  }
}

TEST_P(ClampedSwigluGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t n : {1, 2, 3, 5, 7, 8, 16, 24, 97, 1031}) ExpectReference(9, n);
}

TEST_P(ClampedSwigluGpuTest, MatchesReferenceForModels) { ExpectReference(131, 2880); }

TEST_P(ClampedSwigluGpuTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(80, 1.0f);
  gate_up[3] = gate_up[40 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(1, 40, gate_up), gradient = Backward(1, 40, gate_up, Floats(40, 1.0f));
  for (size_t j = 0; j < 40; ++j) {
    EXPECT_EQ(std::isnan(y[j]), j == 3 || j == 5);
    EXPECT_EQ(std::isnan(gradient[j]), j == 3 || j == 5);
    EXPECT_EQ(std::isnan(gradient[j + 40]), j == 3);
  }
}

TEST_P(ClampedSwigluGpuTest, NoRowsDoNothing) {
  ClampedSwigluForward({.spec = SpecOf(8)}, TestStream());
  ClampedSwigluBackward({.spec = SpecOf(8)}, TestStream());
  EXPECT_FALSE(ClampedSwigluSupports({.dtype = dtype_, .intermediate = 8, .alpha = 1.0f}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, ClampedSwigluGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_clamped_swiglu_test
}  // namespace coxswain::kernels
