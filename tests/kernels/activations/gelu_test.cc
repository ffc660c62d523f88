#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gelu_test {
namespace {

// Parameter: the tanh form, or the erf form.
class GeluTest : public testing::TestWithParam<bool> {
 protected:
  Floats Forward(int64_t rows, int64_t n, const Floats& x) const {
    Floats y(Size(rows * n), std::nanf(""));
    const ExpectNoAllocation launches;
    GeluForward(
        {.spec = {.columns = n, .tanh = GetParam()}, .rows = rows, .x = x.data(), .y = y.data()},
        nullptr);
    return y;
  }
  Floats Backward(int64_t rows, int64_t n, const Floats& x, const Floats& dy) const {
    Floats gradient = x, kept = x, elsewhere(x.size());
    {
      const ExpectNoAllocation launches;
      GeluBackwardArgs args = {.spec = {.columns = n, .tanh = GetParam()},
                               .rows = rows,
                               .dy = dy.data(),
                               .x = gradient.data()};
      GeluBackward(args, nullptr);
      args.x = kept.data();
      args.gradient = elsewhere.data();
      GeluBackward(args, nullptr);
    }
    EXPECT_TRUE(SameBits(elsewhere, gradient) && SameBits(kept, x));
    return gradient;
  }
};

// As geglu_test.cc with one product less: 7 u of the size 1 + |a| for the value, 15 u for the slope
// times dy.
TEST_P(GeluTest, MatchesReferenceForEveryTailAndLargeInputs) {
  const Floats extremes = {90.0f, -90.0f, -1000.0f, 1000.0f, 0.0f, -1e30f, 1e30f};
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 15, 16, 31, 33, 97}) {
    const int64_t rows = 7;
    Floats x = Normal(rows * n, 1, 4.0f);
    for (size_t t = 0; t < extremes.size(); ++t) x[t * Size(n)] = extremes[t];
    const Floats dy = Normal(rows * n, 2);
    const Floats y = Forward(rows, n, x), dx = Backward(rows, n, x, dy);
    for (size_t i = 0; i < x.size(); ++i) {
      const double a = x[i], d = dy[i], size = 1 + std::abs(a);
      const auto want = reference::Gelu(a, GetParam());
      ASSERT_NEAR(y[i], want.value, 7 * kUnit * size) << a;
      ASSERT_NEAR(dx[i], d * want.slope, 15 * kUnit * size * std::abs(d)) << a;
    }
  }
}

TEST_P(GeluTest, NanStaysAndTouchesNothingElse) {
  Floats x(40, 1.0f), dy(40, 1.0f);
  x[3] = dy[25] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(2, 20, x), dx = Backward(2, 20, x, dy);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(y[i]), i == 3);
    EXPECT_EQ(std::isnan(dx[i]), i == 3 || i == 25);
  }
}

TEST_P(GeluTest, NoRows) { EXPECT_TRUE(Forward(0, 5, {}).empty()); }

INSTANTIATE_TEST_SUITE_P(Forms, GeluTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "tanh" : "erf"; });

TEST(GeluSupportsTest, RefusesBFloat16AndEmptyRows) {
  EXPECT_FALSE(GeluSupports({.dtype = DType::kBFloat16, .columns = 4}));
  EXPECT_FALSE(GeluSupports({.columns = 0}));
}

}  // namespace
}  // namespace gelu_test
}  // namespace coxswain::kernels
