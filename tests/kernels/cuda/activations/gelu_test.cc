#include "kernels/activations/gates.h"

#include <limits>
#include <tuple>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gpu_gelu_test {
namespace {

// Parameter: type, and whether it is the tanh form.
class GeluGpuTest : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType dtype_ = std::get<0>(GetParam());
  bool tanh_ = std::get<1>(GetParam());

  GeluSpec Spec(int64_t n) const { return {.dtype = dtype_, .columns = n, .tanh = tanh_}; }
  // `shift` moves x and y off their alignment by that many elements.
  Floats Forward(int64_t rows, int64_t n, const Floats& x, int64_t shift = 0) const {
    Floats moved(Size(shift), 0.0f);
    moved.insert(moved.end(), x.begin(), x.end());
    const DeviceTensor device(dtype_, moved), y(dtype_, rows * n + shift);
    const int64_t bytes = shift * DTypeBytes(dtype_);
    GeluForward({.spec = Spec(n),
                 .rows = rows,
                 .x = static_cast<const char*>(device.data()) + bytes,
                 .y = static_cast<char*>(y.data()) + bytes},
                TestStream());
    const Floats all = y.Read();
    return {all.begin() + shift, all.end()};
  }
  Floats Backward(int64_t rows, int64_t n, const Floats& x, const Floats& dy) const {
    const DeviceTensor gradient(dtype_, x), kept(dtype_, x), device_dy(dtype_, dy);
    const DeviceTensor elsewhere(dtype_, rows * n);
    GeluBackwardArgs args = {
        .spec = Spec(n), .rows = rows, .dy = device_dy.data(), .x = gradient.data()};
    GeluBackward(args, TestStream());
    args.x = kept.data();
    args.gradient = elsewhere.data();
    GeluBackward(args, TestStream());
    EXPECT_TRUE(SameBits(elsewhere.Read(), gradient.Read()) && SameBits(kept.Read(), x));
    return gradient.Read();
  }
  void ExpectReference(int64_t rows, int64_t n) const;
};

// As geglu_test.cc with one product less, then one rounding to the type.
void GeluGpuTest::ExpectReference(int64_t rows, int64_t n) const {
  Floats x = Normal(rows * n, 1, dtype_, 4.0f);
  const Floats extremes = {90.0f, -90.0f, -1000.0f, 1000.0f, 0.0f, -1e30f, 1e30f};
  for (size_t t = 0; t < extremes.size() && t < Size(rows); ++t) {
    x[t * Size(n)] = Round(extremes[t], dtype_);
  }
  const Floats dy = Normal(rows * n, 2, dtype_);
  const Floats y = Forward(rows, n, x), dx = Backward(rows, n, x, dy);
  EXPECT_TRUE(SameBits(y, Forward(rows, n, x)));
  EXPECT_TRUE(SameBits(dx, Backward(rows, n, x, dy)));
  const double unit = kUnit(DType::kFloat32);
  const double rounding = dtype_ == DType::kFloat32 ? 0 : kUnit(dtype_);
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], d = dy[i], size = 1 + std::abs(a);
    const auto want = reference::Gelu(a, tanh_);
    const double want_dx = d * want.slope;
    ASSERT_NEAR(y[i], want.value, 9 * unit * size + rounding * std::abs(want.value)) << a;
    ASSERT_NEAR(dx[i], want_dx, 19 * unit * size * std::abs(d) + rounding * std::abs(want_dx)) << a;
  }
}

TEST_P(GeluGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 97, 1031}) ExpectReference(7, n);
}

TEST_P(GeluGpuTest, MatchesReferenceForModels) { ExpectReference(33, 12288); }

TEST_P(GeluGpuTest, TakesUnalignedRowsAndNoRows) {
  const Floats x = Normal(5 * 64, 3, dtype_);
  EXPECT_TRUE(SameBits(Forward(5, 64, x, 1), Forward(5, 64, x)));
  EXPECT_TRUE(Forward(0, 64, {}).empty());
}

TEST_P(GeluGpuTest, NanStaysAndTouchesNothingElse) {
  Floats x(80, 1.0f), dy(80, 1.0f);
  x[3] = dy[45] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(2, 40, x), dx = Backward(2, 40, x, dy);
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(std::isnan(y[i]), i == 3);
    EXPECT_EQ(std::isnan(dx[i]), i == 3 || i == 45);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, GeluGpuTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_tanh" : "_erf");
                         });

// Invariant kernels-2.
TEST(GeluGpuSizeTest, ElementsBehindTwoToThe31) {
  const GeluSpec spec{.dtype = DType::kBFloat16, .columns = 4096};
  const int64_t rows = (int64_t{1} << 31) / spec.columns + 3, elements = rows * spec.columns;
  const DeviceBytes x(elements * 2), y(elements * 2);
  SetMemory(x.data(), 0, x.bytes(), TestStream());
  SetMemory(y.data(), 0xff, y.bytes(), TestStream());  // NaN
  Synchronize(TestStream());
  const uint16_t two = BFloat16Bits(2.0f);
  const auto at = [&](const DeviceBytes& data, int64_t element) {
    return static_cast<char*>(data.data()) + element * 2;
  };
  CopyMemory(at(x, elements - 1), &two, 2, nullptr);
  const auto read = [&](const DeviceBytes& data, int64_t element) {
    uint16_t bits = 0;
    CopyMemory(&bits, at(data, element), 2, nullptr);
    return FromBFloat16Bits(bits);
  };
  GeluForward({.spec = spec, .rows = rows, .x = x.data(), .y = y.data()}, TestStream());
  Synchronize(TestStream());
  const auto want = reference::Gelu(2.0, spec.tanh);
  EXPECT_EQ(read(y, 0), 0.0f);
  EXPECT_EQ(read(y, elements - 2), 0.0f);
  EXPECT_NEAR(read(y, elements - 1), want.value, 0x1p-8 * want.value + 0x1p-18);
  GeluBackward({.spec = spec, .rows = rows, .dy = y.data(), .x = x.data()}, TestStream());
  Synchronize(TestStream());
  EXPECT_EQ(read(x, elements - 2), 0.0f);
  // Two roundings to bfloat16, of y and of the gradient, and what they do together.
  EXPECT_NEAR(read(x, elements - 1), want.value * want.slope, 0x1.1p-7 * want.value * want.slope);
}

}  // namespace
}  // namespace gpu_gelu_test
}  // namespace coxswain::kernels
