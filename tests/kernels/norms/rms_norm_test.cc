#include "kernels/norms/norms.h"

#include <cmath>
#include <limits>

#include "tests/kernels/norm_bounds.h"
#include "tests/kernels/testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace rms_norm_test {
namespace {

constexpr float kEps = 1e-6f;

struct Problem {
  Problem(int64_t rows, int64_t hidden)
      : rows(rows),
        hidden(hidden),
        x(Normal(rows * hidden, 1)),
        weight(Normal(hidden, 2)),
        dy(Normal(rows * hidden, 3)) {
    for (float& value : x) value += value > 0 ? 0.5f : -0.5f;  // keeps r bounded at hidden = 1
  }
  RmsNormSpec spec() const { return {.hidden = hidden, .eps = kEps}; }
  reference::RmsNormShape<double> shape() const { return {rows, hidden, kEps}; }
  int64_t rows, hidden;
  Floats x, weight, dy;
};

struct Backward {
  Floats dx, dweight;
};

Backward RunBackward(const Problem& p, const Floats& rstd, const Floats& dx, bool accumulate,
                     bool frozen) {
  Backward result{dx, Floats(Size(p.hidden), 0.25f)};
  Scratch scratch(frozen ? 0 : RmsNormBackwardWorkspaceBytes(p.spec(), p.rows));
  const ExpectNoAllocation launches;
  RmsNormBackward({.spec = p.spec(),
                   .rows = p.rows,
                   .dy = p.dy.data(),
                   .x = p.x.data(),
                   .weight = p.weight.data(),
                   .rstd = rstd.data(),
                   .accumulate_dx = accumulate,
                   .dx = result.dx.data(),
                   .dweight = frozen ? nullptr : result.dweight.data(),
                   .workspace = scratch.view()},
                  nullptr);
  return result;
}

TEST(RmsNormTest, MatchesReferenceForOddSizes) {
  for (const int64_t hidden : {1, 2, 3, 7, 16, 17, 23, 64, 67, 896}) {
    for (const int64_t rows : {0, 1, 5, 64, 65, 131}) {
      const Problem p(rows, hidden);
      Floats y(p.x.size()), rstd(Size(rows));
      RmsNormForward({.spec = p.spec(),
                      .rows = rows,
                      .x = p.x.data(),
                      .weight = p.weight.data(),
                      .y = y.data(),
                      .rstd = rstd.data()},
                     nullptr);
      Doubles want_y(y.size()), want_rstd(rstd.size());
      const Doubles x = Double(p.x), w = Double(p.weight), dy = Double(p.dy);
      reference::RmsNorm(p.shape(), x.data(), w.data(), want_y.data(), want_rstd.data());
      ExpectWithin(y, want_y, ForwardBound(hidden), "y");
      ExpectWithin(rstd, want_rstd, ForwardBound(hidden), "rstd");

      const Floats stream = Normal(rows * hidden, 4);
      Doubles want_dx = Double(stream), want_dw(Size(hidden), 0.25);
      reference::RmsNormBackward(p.shape(), dy.data(), x.data(), w.data(), want_dx.data(),
                                 want_dw.data());
      const Backward got = RunBackward(p, rstd, stream, true, false);
      ExpectWithin(got.dx, want_dx, BackwardBound(hidden), "dx");
      // A sum over rows of dy x r, each below 25, in blocks of 64.
      const double n = static_cast<double>(rows);
      ExpectWithin(got.dweight, want_dw,
                   (64 + n / 64 + ForwardBound(hidden) / kUnit / 25) * kUnit * (25 * n + 1), "dw");
    }
  }
}

// Invariant kernels-4.
// Weights w - 1 counted from one are weights w, to the bit where w - 1 is exact.
TEST(RmsNormTest, WeightsMayCountFromOne) {
  Problem p(65, 67);
  for (float& weight : p.weight) weight = std::round(weight * 64.0f) / 64.0f;
  const auto run = [&](float offset) {
    RmsNormSpec spec = p.spec();
    spec.weight_offset = offset;
    Floats weight = p.weight, y(p.x.size()), sum(p.x.size()), added(p.x.size());
    Floats rstd(Size(p.rows)), dx(p.x.size(), 0.5f), dweight(Size(p.hidden), 0.25f);
    for (float& value : weight) value -= offset;
    RmsNormForward({.spec = spec,
                    .rows = p.rows,
                    .x = p.x.data(),
                    .weight = weight.data(),
                    .y = y.data(),
                    .rstd = rstd.data()},
                   nullptr);
    AddRmsNormForward({.spec = spec,
                       .rows = p.rows,
                       .x = p.x.data(),
                       .residual = p.dy.data(),
                       .weight = weight.data(),
                       .sum = sum.data(),
                       .y = added.data(),
                       .rstd = rstd.data()},
                      nullptr);
    Scratch scratch(RmsNormBackwardWorkspaceBytes(spec, p.rows));
    RmsNormBackward({.spec = spec,
                     .rows = p.rows,
                     .dy = p.dy.data(),
                     .x = sum.data(),
                     .weight = weight.data(),
                     .rstd = rstd.data(),
                     .accumulate_dx = true,
                     .dx = dx.data(),
                     .dweight = dweight.data(),
                     .workspace = scratch.view()},
                    nullptr);
    for (const Floats* more : {&added, &dx, &dweight})
      y.insert(y.end(), more->begin(), more->end());
    return y;
  };
  EXPECT_TRUE(SameBits(run(1.0f), run(0.0f)));
}

TEST(RmsNormTest, OverwritingEqualsAccumulatingOntoZeroAndMayAliasDy) {
  Problem p(37, 51);
  Floats y(p.x.size()), rstd(Size(p.rows));
  RmsNormForward({.spec = p.spec(),
                  .rows = p.rows,
                  .x = p.x.data(),
                  .weight = p.weight.data(),
                  .y = y.data(),
                  .rstd = rstd.data()},
                 nullptr);
  const Floats zero(p.x.size(), 0.0f), nan(p.x.size(), std::nanf(""));
  const Backward added = RunBackward(p, rstd, zero, true, false);
  const Backward written = RunBackward(p, rstd, nan, false, false);
  ExpectWithin(written.dx, Double(added.dx), 0.0, "dx");
  EXPECT_TRUE(SameBits(added.dweight, written.dweight));
  EXPECT_TRUE(SameBits(written.dx, RunBackward(p, rstd, nan, false, true).dx)) << "frozen weight";
  const Floats dy = p.dy;
  RmsNormBackward({.spec = p.spec(),
                   .rows = p.rows,
                   .dy = p.dy.data(),
                   .x = p.x.data(),
                   .weight = p.weight.data(),
                   .rstd = rstd.data(),
                   .accumulate_dx = false,
                   .dx = p.dy.data(),
                   .dweight = nullptr,
                   .workspace = {}},
                  nullptr);
  EXPECT_TRUE(SameBits(p.dy, written.dx));
}

TEST(RmsNormTest, AddRmsNormEqualsAddThenNormBitwiseAlsoInPlace) {
  const Problem p(19, 77);
  const Floats residual = Normal(p.rows * p.hidden, 8);
  Floats sum(p.x.size()), y(sum), rstd(Size(p.rows)), want_sum(sum), want_y(sum), want_rstd(rstd);
  for (size_t i = 0; i < sum.size(); ++i) want_sum[i] = p.x[i] + residual[i];
  RmsNormForward({.spec = p.spec(),
                  .rows = p.rows,
                  .x = want_sum.data(),
                  .weight = p.weight.data(),
                  .y = want_y.data(),
                  .rstd = want_rstd.data()},
                 nullptr);
  AddRmsNormForwardArgs args{.spec = p.spec(),
                             .rows = p.rows,
                             .x = p.x.data(),
                             .residual = residual.data(),
                             .weight = p.weight.data(),
                             .sum = sum.data(),
                             .y = y.data(),
                             .rstd = rstd.data()};
  AddRmsNormForward(args, nullptr);
  EXPECT_TRUE(SameBits(sum, want_sum));
  EXPECT_TRUE(SameBits(y, want_y));
  EXPECT_TRUE(SameBits(rstd, want_rstd));
  Floats in_place = residual;
  args.residual = args.sum = in_place.data();
  AddRmsNormForward(args, nullptr);
  EXPECT_TRUE(SameBits(in_place, want_sum));
  EXPECT_TRUE(SameBits(y, want_y));
}

TEST(RmsNormTest, ZeroRowIsFiniteAndNanStaysInItsRow) {
  Problem p(3, 20);
  std::fill(p.x.begin(), p.x.begin() + 20, 0.0f);
  p.x[25] = std::numeric_limits<float>::quiet_NaN();
  Floats y(p.x.size()), rstd(3);
  RmsNormForward({.spec = p.spec(),
                  .rows = 3,
                  .x = p.x.data(),
                  .weight = p.weight.data(),
                  .y = y.data(),
                  .rstd = rstd.data()},
                 nullptr);
  for (size_t j = 0; j < 20; ++j) {
    EXPECT_EQ(y[j], 0.0f);
    EXPECT_TRUE(std::isnan(y[20 + j]));
    EXPECT_TRUE(std::isfinite(y[40 + j]));
  }
}

TEST(RmsNormTest, RefusesBFloat16AndEmptyRows) {
  EXPECT_FALSE(RmsNormSupports({.dtype = DType::kBFloat16, .hidden = 4}));
  EXPECT_FALSE(RmsNormSupports({.hidden = 0}));
}

}  // namespace
}  // namespace rms_norm_test
}  // namespace coxswain::kernels
