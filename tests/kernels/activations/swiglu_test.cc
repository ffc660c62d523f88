#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace swiglu_test {
namespace {

TEST(SwigluTest, MatchesReferenceForEveryTailAndLargeInputs) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 15, 16, 31, 33, 97}) {
    const int64_t rows = 5;
    Floats gate_up = Normal(rows * 2 * n, 1, 4.0f);
    gate_up[0] = 90.0f;
    gate_up[Size(2 * n)] = -90.0f;
    gate_up[Size(4 * n)] = -1000.0f;
    gate_up[Size(6 * n)] = 1000.0f;
    const Floats dy = Normal(rows * n, 2);
    Floats y(Size(rows * n)), gradient = gate_up;
    SwigluForward(
        {.spec = {.intermediate = n}, .rows = rows, .gate_up = gate_up.data(), .y = y.data()},
        nullptr);
    SwigluBackward(
        {.spec = {.intermediate = n}, .rows = rows, .dy = dy.data(), .gate_up = gradient.data()},
        nullptr);
    Floats kept = gate_up, elsewhere(gate_up.size());
    SwigluBackward({.spec = {.intermediate = n},
                    .rows = rows,
                    .dy = dy.data(),
                    .gate_up = kept.data(),
                    .gradient = elsewhere.data()},
                   nullptr);
    EXPECT_TRUE(SameBits(elsewhere, gradient) && SameBits(kept, gate_up));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < n; ++j) {
        const double a = gate_up[Size(t * 2 * n + j)], b = gate_up[Size(t * 2 * n + n + j)];
        const double d = dy[Size(t * n + j)];
        const auto want = reference::SwigluBackward(d, a, b);
        // Exp is within 4 u, the logistic within 6 u, then 2 products; a (1 - s) is off by 8 u |a|
        // s.
        const double size = (1 + std::abs(a)) * (1 + std::abs(b));
        ASSERT_NEAR(y[Size(t * n + j)], reference::Swiglu(a, b), 8 * kUnit * size);
        const size_t at = Size(t * 2 * n + j);
        ASSERT_NEAR(gradient[at], want.gate, 16 * kUnit * size * std::abs(d));
        ASSERT_NEAR(gradient[at + Size(n)], want.up, 10 * kUnit * size * std::abs(d));
      }
    }
  }
}

TEST(SwigluTest, BackwardGivesTheOutputOnceMoreInPlaceOfItsGradient) {
  const int64_t n = 33, rows = 4;
  const Floats gate_up = Normal(rows * 2 * n, 1, 4.0f);
  Floats y(Size(rows * n)), plain = gate_up, again = gate_up, dy = Normal(rows * n, 2);
  SwigluForward(
      {.spec = {.intermediate = n}, .rows = rows, .gate_up = gate_up.data(), .y = y.data()},
      nullptr);
  SwigluBackward(
      {.spec = {.intermediate = n}, .rows = rows, .dy = dy.data(), .gate_up = plain.data()},
      nullptr);
  SwigluBackward({.spec = {.intermediate = n},
                  .rows = rows,
                  .dy = dy.data(),
                  .gate_up = again.data(),
                  .y = dy.data()},
                 nullptr);
  EXPECT_TRUE(SameBits(dy, y));
  EXPECT_TRUE(SameBits(again, plain));
}

TEST(SwigluTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(40, 1.0f), y(20);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  SwigluForward({.spec = {.intermediate = 20}, .rows = 1, .gate_up = gate_up.data(), .y = y.data()},
                nullptr);
  for (size_t j = 0; j < 20; ++j) EXPECT_EQ(std::isnan(y[j]), j == 3);
}

}  // namespace
}  // namespace swiglu_test
}  // namespace coxswain::kernels
