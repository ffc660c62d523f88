#include "kernels/experts/expert_rows.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/sigmoid_gate.h"

namespace coxswain::kernels {
namespace sigmoid_gate_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The gate is within 6 u of itself, as in SwiGLU; then a product, and a sum of two. The gradient of
// a logit sums n products, and 1 - s is off by 6 u.
TEST(SigmoidGateTest, MatchesReferenceForEveryTailAndLargeLogits) {
  for (const int64_t n : {1, 2, 3, 7, 15, 16, 17, 33, 97}) {
    const int64_t rows = 5;
    Floats logits = Normal(rows, 1, 3.0f);
    logits[0] = 90.0f;
    logits[1] = -90.0f;
    const Floats x = Normal(rows * n, 2), dy = Normal(rows * n, 3), before = Normal(rows * n, 4);
    Floats y = before, dx(Size(rows * n), kNan), dlogits(Size(rows), kNan);
    {
      ExpectNoAllocation none;
      SigmoidGateForward({.spec = {.columns = n},
                          .rows = rows,
                          .logits = logits.data(),
                          .x = x.data(),
                          .y = y.data()},
                         nullptr);
      SigmoidGateBackward({.spec = {.columns = n},
                           .rows = rows,
                           .logits = logits.data(),
                           .x = x.data(),
                           .dy = dy.data(),
                           .dx = dx.data(),
                           .dlogits = dlogits.data()},
                          nullptr);
    }
    for (int64_t t = 0; t < rows; ++t) {
      const Doubles row(x.begin() + t * n, x.begin() + (t + 1) * n);
      const Doubles drow(dy.begin() + t * n, dy.begin() + (t + 1) * n);
      const double logit = logits[Size(t)];
      const Doubles want = reference::SigmoidGate(logit, row);
      const auto gradient = reference::SigmoidGateBackward(logit, row, drow);
      double size = 0;
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = Size(t * n + j), in_row = Size(j);
        ASSERT_NEAR(y[at], before[at] + want[in_row],
                    9 * kUnit * (std::abs(row[in_row]) + std::abs(before[at])));
        ASSERT_NEAR(dx[at], gradient.x[in_row], 8 * kUnit * std::abs(drow[in_row]));
        size += std::abs(drow[in_row] * row[in_row]);
      }
      ASSERT_NEAR(dlogits[Size(t)], gradient.logit, static_cast<double>(n + 14) * kUnit * size);
    }
  }
}

TEST(SigmoidGateTest, BackwardInPlaceAndWhatIsWantedAlone) {
  const int64_t n = 33, rows = 4;
  const Floats x = Normal(rows * n, 1), dy = Normal(rows * n, 2), logits = Normal(rows, 3);
  Floats dx(Size(rows * n), kNan), dlogits(Size(rows), kNan), in_place = x, gate = logits;
  SigmoidGateBackwardArgs args{.spec = {.columns = n},
                               .rows = rows,
                               .logits = logits.data(),
                               .x = x.data(),
                               .dy = dy.data(),
                               .dx = dx.data()};
  SigmoidGateBackward(args, nullptr);
  EXPECT_TRUE(std::isnan(dlogits[0]));
  args.dx = nullptr;
  args.dlogits = dlogits.data();
  SigmoidGateBackward(args, nullptr);
  args.x = args.dx = in_place.data();
  args.logits = args.dlogits = gate.data();
  SigmoidGateBackward(args, nullptr);
  EXPECT_TRUE(SameBits(in_place, dx) && SameBits(gate, dlogits));
}

// Invariant kernels-6.
TEST(SigmoidGateTest, NanReachesItsRowAlone) {
  const int64_t n = 4;
  Floats y(8, 0.0f);
  const Floats x(8, 1.0f), logits = {kNan, 0.0f};
  SigmoidGateForward(
      {.spec = {.columns = n}, .rows = 2, .logits = logits.data(), .x = x.data(), .y = y.data()},
      nullptr);
  for (size_t j = 0; j < 8; ++j) EXPECT_EQ(std::isnan(y[j]), j < 4);
  EXPECT_EQ(y[7], 0.5f);
  EXPECT_FALSE(SigmoidGateSupports({.dtype = DType::kBFloat16, .columns = n}));
  EXPECT_FALSE(SigmoidGateSupports({.columns = 0}));
}

}  // namespace
}  // namespace sigmoid_gate_test
}  // namespace coxswain::kernels
