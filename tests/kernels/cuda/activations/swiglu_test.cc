#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gpu_swiglu_test {
namespace {

class SwigluGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Forward(int64_t rows, int64_t n, const DeviceTensor& gate_up) const {
    const DeviceTensor y(dtype_, rows * n);
    SwigluForward({.spec = {.dtype = dtype_, .intermediate = n},
                   .rows = rows,
                   .gate_up = gate_up.data(),
                   .y = y.data()},
                  TestStream());
    return y.Read();
  }
  Floats Backward(int64_t rows, int64_t n, const Floats& gate_up, const Floats& dy) const {
    const DeviceTensor gradient(dtype_, gate_up), kept(dtype_, gate_up), device_dy(dtype_, dy);
    const DeviceTensor elsewhere(dtype_, rows * 2 * n);
    SwigluBackwardArgs args = {.spec = {.dtype = dtype_, .intermediate = n},
                               .rows = rows,
                               .dy = device_dy.data(),
                               .gate_up = gradient.data()};
    SwigluBackward(args, TestStream());
    args.gate_up = kept.data();
    args.gradient = elsewhere.data();
    SwigluBackward(args, TestStream());
    EXPECT_TRUE(SameBits(elsewhere.Read(), gradient.Read()) && SameBits(kept.Read(), gate_up));
    return gradient.Read();
  }
  void ExpectReference(int64_t rows, int64_t n) const;
};

TEST_P(SwigluGpuTest, BackwardGivesTheOutputOnceMoreInPlaceOfItsGradient) {
  for (const int64_t n : {7, 33, 4864}) {
    const int64_t rows = 5;
    const Floats gate_up = Normal(rows * 2 * n, 1, dtype_, 4.0f);
    const Floats dy = Normal(rows * n, 2, dtype_);
    const DeviceTensor gradient(dtype_, gate_up), shared(dtype_, dy);
    SwigluBackward({.spec = {.dtype = dtype_, .intermediate = n},
                    .rows = rows,
                    .dy = shared.data(),
                    .gate_up = gradient.data(),
                    .y = shared.data()},
                   TestStream());
    EXPECT_TRUE(SameBits(shared.Read(), Forward(rows, n, DeviceTensor(dtype_, gate_up))));
    EXPECT_TRUE(SameBits(gradient.Read(), Backward(rows, n, gate_up, dy)));
  }
}

// float32: the logistic function times a is off by 8 u max(1, |a|)
// (kernels/cuda/activations/swiglu.cu), then 2 products; in the slope a (1 - s) once more. Then one
// rounding to the type.
void SwigluGpuTest::ExpectReference(int64_t rows, int64_t n) const {
  Floats gate_up = Normal(rows * 2 * n, 1, dtype_, 4.0f);
  const Floats extremes = {90.0f, -90.0f, -1000.0f, 1000.0f, 0.0f, -1e30f, 1e30f};
  for (size_t t = 0; t < extremes.size() && t < Size(rows); ++t) {
    gate_up[t * Size(2 * n)] = Round(extremes[t], dtype_);
  }
  const Floats dy = Normal(rows * n, 2, dtype_);
  const Floats y = Forward(rows, n, DeviceTensor(dtype_, gate_up));
  const Floats gradient = Backward(rows, n, gate_up, dy);
  EXPECT_TRUE(SameBits(y, Forward(rows, n, DeviceTensor(dtype_, gate_up))));
  EXPECT_TRUE(SameBits(gradient, Backward(rows, n, gate_up, dy)));
  const double unit = kUnit(DType::kFloat32);
  const double rounding = dtype_ == DType::kFloat32 ? 0 : kUnit(dtype_);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = Size(t * 2 * n + j);
      const double a = gate_up[at], b = gate_up[at + Size(n)], d = dy[Size(t * n + j)];
      const auto want = reference::SwigluBackward(d, a, b);
      const double want_y = reference::Swiglu(a, b), size = (1 + std::abs(a)) * (1 + std::abs(b));
      ASSERT_NEAR(y[Size(t * n + j)], want_y, 10 * unit * size + rounding * std::abs(want_y))
          << "row " << t << " column " << j << " gate " << a;
      ASSERT_NEAR(gradient[at], want.gate,
                  20 * unit * size * std::abs(d) + rounding * std::abs(want.gate))
          << "row " << t << " column " << j << " gate " << a;
      ASSERT_NEAR(gradient[at + Size(n)], want.up,
                  10 * unit * size * std::abs(d) + rounding * std::abs(want.up))
          << "row " << t << " column " << j << " gate " << a;
    }
  }
}

TEST_P(SwigluGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 97, 1031}) ExpectReference(7, n);
}

TEST_P(SwigluGpuTest, MatchesReferenceForModels) {
  ExpectReference(131, 4864);
  ExpectReference(33, 18944);
}

TEST_P(SwigluGpuTest, ReadsRowsThatAreNotAligned) {
  const int64_t rows = 3, n = 16;
  const Floats gate_up = Normal(rows * 2 * n + 1, 1, dtype_);
  const Floats shifted(gate_up.begin() + 1, gate_up.end());
  const DeviceTensor device(dtype_, gate_up), y(dtype_, rows * n);
  SwigluForward({.spec = {.dtype = dtype_, .intermediate = n},
                 .rows = rows,
                 .gate_up = static_cast<const char*>(device.data()) + DTypeBytes(dtype_),
                 .y = y.data()},
                TestStream());
  EXPECT_TRUE(SameBits(y.Read(), Forward(rows, n, DeviceTensor(dtype_, shifted))));
}

TEST_P(SwigluGpuTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(80, 1.0f);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(1, 40, DeviceTensor(dtype_, gate_up));
  const Floats gradient = Backward(1, 40, gate_up, Floats(40, 1.0f));
  for (size_t j = 0; j < 40; ++j) {
    EXPECT_EQ(std::isnan(y[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j + 40]), j == 3);
  }
}

TEST_P(SwigluGpuTest, NoRowsDoNothing) {
  SwigluForward({.spec = {.dtype = dtype_, .intermediate = 8}}, TestStream());
  SwigluBackward({.spec = {.dtype = dtype_, .intermediate = 8}}, TestStream());
  EXPECT_FALSE(SwigluSupports({.dtype = dtype_, .intermediate = 0}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, SwigluGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_swiglu_test
}  // namespace coxswain::kernels
