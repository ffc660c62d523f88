#include "kernels/activations/gates.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace geglu_test {
namespace {

// Parameter: the tanh form, or the erf form.
class GegluTest : public testing::TestWithParam<bool> {
 protected:
  Floats Forward(int64_t rows, int64_t n, const Floats& gate_up) const {
    Floats y(Size(rows * n), std::nanf(""));
    GegluForward({.spec = {.intermediate = n, .tanh = GetParam()},
                  .rows = rows,
                  .gate_up = gate_up.data(),
                  .y = y.data()},
                 nullptr);
    return y;
  }
  Floats Backward(int64_t rows, int64_t n, const Floats& gate_up, const Floats& dy) const {
    Floats gradient = gate_up, kept = gate_up, elsewhere(gate_up.size());
    GegluBackwardArgs args = {.spec = {.intermediate = n, .tanh = GetParam()},
                              .rows = rows,
                              .dy = dy.data(),
                              .gate_up = gradient.data()};
    GegluBackward(args, nullptr);
    args.gate_up = kept.data();
    args.gradient = elsewhere.data();
    GegluBackward(args, nullptr);
    EXPECT_TRUE(SameBits(elsewhere, gradient) && SameBits(kept, gate_up));
    return gradient;
  }
};

// s and P are off by 6 roundings, the slope by 60 near |a| = 3.5 (1 - s is multiplied by a dx/da,
// kernels/cuda/activations/gelu.cuh), 14 of its size 1 + |a|; then 2 products.
TEST_P(GegluTest, MatchesReferenceForEveryTailAndLargeInputs) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 15, 16, 31, 33, 97}) {
    const int64_t rows = 7;
    Floats gate_up = Normal(rows * 2 * n, 1, 4.0f);
    const Floats extremes = {90.0f, -90.0f, -1000.0f, 1000.0f, 0.0f, -1e30f, 1e30f};
    for (size_t t = 0; t < extremes.size(); ++t) gate_up[t * Size(2 * n)] = extremes[t];
    const Floats dy = Normal(rows * n, 2);
    const Floats y = Forward(rows, n, gate_up), gradient = Backward(rows, n, gate_up, dy);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = Size(t * 2 * n + j);
        const double a = gate_up[at], b = gate_up[at + Size(n)], d = dy[Size(t * n + j)];
        const auto want = reference::GegluBackward(d, a, b, GetParam());
        const double size = (1 + std::abs(a)) * (1 + std::abs(b));
        ASSERT_NEAR(y[Size(t * n + j)], reference::Geglu(a, b, GetParam()), 8 * kUnit * size) << a;
        ASSERT_NEAR(gradient[at], want.gate, 16 * kUnit * size * std::abs(d)) << a;
        ASSERT_NEAR(gradient[at + Size(n)], want.up, 8 * kUnit * size * std::abs(d)) << a;
      }
    }
  }
}

TEST_P(GegluTest, BackwardGivesTheForwardOnceMoreInPlaceOfDy) {
  const int64_t rows = 3, n = 37;
  const Floats gate_up = Normal(rows * 2 * n, 1, 2.0f), dy = Normal(rows * n, 2);
  Floats gradient = gate_up, y = dy;
  GegluBackward({.spec = {.intermediate = n, .tanh = GetParam()},
                 .rows = rows,
                 .dy = y.data(),
                 .gate_up = gradient.data(),
                 .y = y.data()},
                nullptr);
  EXPECT_TRUE(SameBits(gradient, Backward(rows, n, gate_up, dy)));
  EXPECT_TRUE(SameBits(y, Forward(rows, n, gate_up)));
}

TEST_P(GegluTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(40, 1.0f);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = Forward(1, 20, gate_up), gradient = Backward(1, 20, gate_up, Floats(20, 1.0f));
  for (size_t j = 0; j < 20; ++j) {
    EXPECT_EQ(std::isnan(y[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j]), j == 3);
    EXPECT_EQ(std::isnan(gradient[j + 20]), j == 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, GegluTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "tanh" : "erf"; });

}  // namespace
}  // namespace geglu_test
}  // namespace coxswain::kernels
