#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace clamped_swiglu_test {
namespace {

constexpr float kAlpha = 1.702f, kLimit = 7.0f;
constexpr reference::ClampedGate<double> kGate{kAlpha, kLimit};

ClampedSwigluSpec SpecOf(int64_t n) {
  return {.intermediate = n, .alpha = kAlpha, .limit = kLimit};
}

// As SwiGLU's (swiglu_test.cc), of values that are at most 7 (gate) and 8 (up + 1) in size, one
// product with alpha and one sum more.
TEST(ClampedSwigluTest, MatchesReferenceForEveryTailAndAtTheLimits) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 15, 16, 31, 33, 97}) {
    const int64_t rows = 6;
    Floats gate_up = Normal(rows * 2 * n, 1, 5.0f);
    for (int64_t t = 0; t < rows; ++t) {
      const Floats limits = {kLimit, std::nextafter(kLimit, 8.0f), -1000.0f, 1000.0f, -kLimit, 0};
      gate_up[Size(t * 2 * n)] = limits[Size(t)];
      gate_up[Size(t * 2 * n + n)] = limits[Size((t + 1) % rows)];
    }
    const Floats dy = Normal(rows * n, 2);
    Floats y(Size(rows * n)), gradient = gate_up;
    {
      ExpectNoAllocation none;
      ClampedSwigluForward(
          {.spec = SpecOf(n), .rows = rows, .gate_up = gate_up.data(), .y = y.data()}, nullptr);
      ClampedSwigluBackward(
          {.spec = SpecOf(n), .rows = rows, .dy = dy.data(), .gate_up = gradient.data()}, nullptr);
    }
    Floats kept = gate_up, elsewhere(gate_up.size()), again = dy;
    ClampedSwigluBackward({.spec = SpecOf(n),
                           .rows = rows,
                           .dy = again.data(),
                           .gate_up = kept.data(),
                           .gradient = elsewhere.data(),
                           .y = again.data()},
                          nullptr);
    EXPECT_TRUE(SameBits(elsewhere, gradient) && SameBits(kept, gate_up) && SameBits(again, y));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = Size(t * 2 * n + j);
        const double a = gate_up[at], b = gate_up[at + Size(n)], d = dy[Size(t * n + j)];
        const auto want = reference::ClampedSwigluBackward(kGate, d, a, b);
        const double size = (1 + kAlpha * std::min(std::abs(a), 20.0)) * (2 + std::abs(b));
        ASSERT_NEAR(y[Size(t * n + j)], reference::ClampedSwiglu(kGate, a, b), 10 * kUnit * size);
        ASSERT_NEAR(gradient[at], want.gate, 20 * kUnit * size * std::abs(d)) << a << " " << b;
        ASSERT_NEAR(gradient[at + Size(n)], want.up, 12 * kUnit * size * std::abs(d));
      }
    }
  }
}

// The slope of a clamp is 1 at the limit, 0 behind it.
TEST(ClampedSwigluTest, GradientStopsBehindTheLimits) {
  const float behind = std::nextafter(kLimit, 8.0f);
  Floats gate_up = {kLimit, behind, 1, 1, kLimit, behind, -kLimit, -behind};
  const Floats dy(4, 1.0f);
  ClampedSwigluBackward({.spec = SpecOf(4), .rows = 1, .dy = dy.data(), .gate_up = gate_up.data()},
                        nullptr);
  EXPECT_NE(gate_up[0], 0.0f);
  EXPECT_EQ(gate_up[1], 0.0f);
  EXPECT_NE(gate_up[4], 0.0f);
  EXPECT_EQ(gate_up[5], 0.0f);
  EXPECT_NE(gate_up[6], 0.0f);
  EXPECT_EQ(gate_up[7], 0.0f);
}

TEST(ClampedSwigluTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(40, 1.0f), y(20);
  gate_up[3] = gate_up[20 + 5] = std::numeric_limits<float>::quiet_NaN();
  ClampedSwigluForward({.spec = SpecOf(20), .rows = 1, .gate_up = gate_up.data(), .y = y.data()},
                       nullptr);
  for (size_t j = 0; j < 20; ++j) EXPECT_EQ(std::isnan(y[j]), j == 3 || j == 5);
  EXPECT_FALSE(ClampedSwigluSupports({.intermediate = 4, .alpha = 1.0f}));
  EXPECT_FALSE(ClampedSwigluSupports({.intermediate = 4, .limit = 1.0f}));
}

}  // namespace
}  // namespace clamped_swiglu_test
}  // namespace coxswain::kernels
