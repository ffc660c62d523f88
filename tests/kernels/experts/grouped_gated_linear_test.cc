// Gate and up of a mixture's experts with the gate behind them, against the loop over rows in
// double and, by bits, against the two ops.
#include "kernels/experts/grouped_gated_linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/activations/gates.h"
#include "kernels/experts/grouped_linear.h"
#include "tests/kernels/testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace grouped_gated_linear_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kAlpha = 1.702f, kLimit = 2.0f;
constexpr int64_t kExperts = 5, kIn = 7, kInner = 3, kRows = 11;
const std::vector<int32_t> kOffsets = {0, 2, 2, 5, 6, 9};  // two rows belong to none

GroupedGatedLinearSpec SpecOf(float limit) {
  return {.experts = kExperts,
          .in_features = kIn,
          .intermediate = kInner,
          .alpha = limit > 0 ? kAlpha : 0.0f,
          .limit = limit};
}

struct Operands {
  Floats x = Normal(kRows * kIn, 1), w = Normal(kExperts * 2 * kInner * kIn, 2);
  Floats bias = Normal(kExperts * 2 * kInner, 3);

  GroupedGatedLinearForwardArgs Args(float limit, Floats* gate_up, Floats* y) const {
    return {.spec = SpecOf(limit),
            .rows = kRows,
            .offsets = kOffsets.data(),
            .x = x.data(),
            .weight = w.data(),
            .bias = bias.data(),
            .gate_up = gate_up->data(),
            .y = y->data()};
  }
};

struct Results {
  Floats gate_up = Floats(Size(kRows * 2 * kInner), kNan), y = Floats(Size(kRows * kInner), kNan);
};

double Sum(const Operands& o, int64_t row, int64_t expert, int64_t column) {
  const int64_t at = expert * 2 * kInner + column;
  double sum = o.bias[Size(at)];
  for (int64_t l = 0; l < kIn; ++l) {
    sum += double{o.x[Size(row * kIn + l)]} * double{o.w[Size(at * kIn + l)]};
  }
  return sum;
}

double Gate(float limit, double gate, double up) {
  if (limit > 0)
    return reference::ClampedSwiglu(reference::ClampedGate<double>{kAlpha, limit}, gate, up);
  return gate / (1 + std::exp(-gate)) * up;
}

// Values are below 5: a sum of 7 products and a bias is off by 9 u of at most 180. The slope of
// g s(a g) is at most 1.1, and the gates add 10 u of their size (clamped_swiglu_test.cc).
TEST(GroupedGatedLinearTest, MatchesTheLoopOverRows) {
  const Operands operands;
  for (const float limit : {0.0f, kLimit}) {
    Results r;
    {
      ExpectNoAllocation none;
      GroupedGatedLinearForward(operands.Args(limit, &r.gate_up, &r.y), nullptr);
    }
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t expert =
          std::upper_bound(kOffsets.begin(), kOffsets.end(), row) - kOffsets.begin() - 1;
      for (int64_t j = 0; j < kInner; ++j) {
        const float y = r.y[Size(row * kInner + j)];
        if (expert == kExperts) {
          EXPECT_EQ(y, 0.0f) << "behind the last";
          continue;
        }
        const double gate = Sum(operands, row, expert, j);
        const double up = Sum(operands, row, expert, kInner + j);
        const double size = (1 + kAlpha * std::abs(gate)) * (2 + std::abs(up));
        const double slopes = 1.1 * (1 + std::abs(up)) + std::abs(gate);
        EXPECT_NEAR(y, Gate(limit, gate, up), (10 * size + 9 * 180 * slopes) * kUnit)
            << "row " << row << " column " << j;
      }
    }
  }
}

TEST(GroupedGatedLinearTest, HasTheBitsOfTheTwoOps) {
  const Operands o;
  for (const float limit : {0.0f, kLimit}) {
    Results one, both;
    GroupedGatedLinearForward(o.Args(limit, &one.gate_up, &one.y), nullptr);
    GroupedLinearForward(
        {.spec = {.experts = kExperts, .in_features = kIn, .out_features = 2 * kInner},
         .rows = kRows,
         .offsets = kOffsets.data(),
         .x = o.x.data(),
         .weight = o.w.data(),
         .bias = o.bias.data(),
         .y = both.gate_up.data()},
        nullptr);
    if (limit > 0) {
      ClampedSwigluForward({.spec = {.intermediate = kInner, .alpha = kAlpha, .limit = limit},
                            .rows = kRows,
                            .gate_up = both.gate_up.data(),
                            .y = both.y.data()},
                           nullptr);
    } else {
      SwigluForward({.spec = {.intermediate = kInner},
                     .rows = kRows,
                     .gate_up = both.gate_up.data(),
                     .y = both.y.data()},
                    nullptr);
    }
    EXPECT_TRUE(SameBits(one.gate_up, both.gate_up) && SameBits(one.y, both.y)) << limit;
  }
}

TEST(GroupedGatedLinearTest, AFewExpertsAtATimeGiveTheSameBits) {
  const Operands operands;
  Results all;
  GroupedGatedLinearForward(operands.Args(0.0f, &all.gate_up, &all.y), nullptr);
  for (const int64_t at_once : {1, 2, 4}) {
    Results few;
    for (int64_t e = 0; e < kExperts; e += at_once) {
      GroupedGatedLinearForwardArgs args = operands.Args(0.0f, &few.gate_up, &few.y);
      args.spec.experts = std::min(at_once, kExperts - e);
      args.offsets = kOffsets.data() + e;
      args.weight = operands.w.data() + e * 2 * kInner * kIn;
      args.bias = operands.bias.data() + e * 2 * kInner;
      args.zeros_behind = e + at_once >= kExperts;
      GroupedGatedLinearForward(args, nullptr);
      EXPECT_EQ(std::isnan(few.gate_up.back()), !args.zeros_behind);
      EXPECT_EQ(std::isnan(few.y.front()), !args.zeros_behind) << "the gate runs once";
    }
    EXPECT_TRUE(SameBits(few.gate_up, all.gate_up) && SameBits(few.y, all.y)) << at_once;
  }
}

TEST(GroupedGatedLinearTest, RefusesWhatIsNone) {
  EXPECT_FALSE(GroupedGatedLinearSupports({.experts = 2, .in_features = 3}));
  EXPECT_FALSE(GroupedGatedLinearSupports(
      {.experts = 2, .in_features = 3, .intermediate = 4, .limit = 7.0f}));
  EXPECT_FALSE(GroupedGatedLinearSupports(
      {.dtype = DType::kBFloat16, .experts = 2, .in_features = 3, .intermediate = 4}));
  const Operands operands;
  Results r;
  GroupedGatedLinearForwardArgs args = operands.Args(0.0f, &r.gate_up, &r.y);
  args.rows = 8;
  EXPECT_THROW(GroupedGatedLinearForward(args, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace grouped_gated_linear_test
}  // namespace coxswain::kernels
