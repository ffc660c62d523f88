#include "kernels/norms/norms.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace layer_norm_test {
namespace {

constexpr float kEps = 1e-5f;

struct Problem {
  Problem(int64_t rows, int64_t hidden, float offset = 1.0f)
      : rows(rows),
        hidden(hidden),
        x(Normal(rows * hidden, 1)),
        weight(Normal(hidden, 2)),
        bias(Normal(hidden, 3)),
        dy(Normal(rows * hidden, 4)) {
    for (float& value : x) value += offset;
    // Two elements one apart keep the variance above 1/(2 H), 1/4 at H = 2.
    for (int64_t t = 0; hidden > 1 && t < rows; ++t)
      x[Size(t * hidden + 1)] = x[Size(t * hidden)] + 1;
  }
  LayerNormSpec spec() const { return {.hidden = hidden, .eps = kEps}; }
  reference::LayerNormShape<double> shape() const { return {rows, hidden, kEps}; }
  int64_t rows, hidden;
  Floats x, weight, bias, dy;
};

struct Forward {
  Floats y, mean, rstd;
};

Forward RunForward(const Problem& p, bool biased = true) {
  Forward out{Floats(p.x.size()), Floats(Size(p.rows)), Floats(Size(p.rows))};
  const ExpectNoAllocation launches;
  LayerNormForward({.spec = p.spec(),
                    .rows = p.rows,
                    .x = p.x.data(),
                    .weight = p.weight.data(),
                    .bias = biased ? p.bias.data() : nullptr,
                    .y = out.y.data(),
                    .mean = out.mean.data(),
                    .rstd = out.rstd.data()},
                   nullptr);
  return out;
}

struct Backward {
  Floats dx, dweight, dbias;
};

enum class Frozen { kNone, kWeight, kBias, kBoth };

Backward RunBackward(const Problem& p, const Forward& forward, const Floats& dx, bool accumulate,
                     Frozen frozen = Frozen::kNone) {
  Backward out{dx, Floats(Size(p.hidden), 0.25f), Floats(Size(p.hidden), -0.25f)};
  const bool no_weight = frozen == Frozen::kWeight || frozen == Frozen::kBoth;
  const bool no_bias = frozen == Frozen::kBias || frozen == Frozen::kBoth;
  Scratch scratch(no_weight && no_bias ? 0 : LayerNormBackwardWorkspaceBytes(p.spec(), p.rows));
  const ExpectNoAllocation launches;
  LayerNormBackward({.spec = p.spec(),
                     .rows = p.rows,
                     .dy = p.dy.data(),
                     .x = p.x.data(),
                     .weight = p.weight.data(),
                     .mean = forward.mean.data(),
                     .rstd = forward.rstd.data(),
                     .accumulate_dx = accumulate,
                     .dx = out.dx.data(),
                     .dweight = no_weight ? nullptr : out.dweight.data(),
                     .dbias = no_bias ? nullptr : out.dbias.data(),
                     .workspace = scratch.view()},
                    nullptr);
  return out;
}

// A sum of n terms in 16 lanes is off by (n/16 + 5) u of the sum of magnitudes. The mean of values
// below 6 is off by that; differences inherit it, times r < 2 (n = 2: differences are 1/2, r = 2),
// times a weight below 5.
double ForwardBound(int64_t n) {
  return (static_cast<double>(n) / 16 + 12) * kUnit * 6 * 2 * 5 * 4;
}

// r (m - mean(m) - n mean(m n)) with |m| < 25, |n| < 6: the two means and n carry that error.
double BackwardBound(int64_t n) {
  return (static_cast<double>(n) / 16 + 12) * kUnit * 2 * (25 + 6 * 25) * 6;
}

TEST(LayerNormTest, MatchesReferenceForOddSizes) {
  for (const int64_t hidden : {1, 2, 3, 7, 16, 17, 23, 64, 67, 896}) {
    for (const int64_t rows : {0, 1, 5, 64, 65, 131}) {
      const Problem p(rows, hidden);
      const Forward got = RunForward(p);
      const Doubles x = Double(p.x), w = Double(p.weight), b = Double(p.bias), dy = Double(p.dy);
      Doubles y(x.size()), mean(Size(rows)), rstd(Size(rows));
      reference::LayerNorm(p.shape(), x.data(), w.data(), b.data(), y.data(), mean.data(),
                           rstd.data());
      // One element: the difference is 0 and r = 1/sqrt(eps).
      ExpectWithin(got.y, y, ForwardBound(hidden), "y");
      ExpectWithin(got.mean, mean, ForwardBound(hidden), "mean");
      ExpectWithin(got.rstd, rstd, hidden == 1 ? 400 * 4 * kUnit : ForwardBound(hidden), "rstd");

      const Floats stream = Normal(rows * hidden, 5);
      Doubles dx = Double(stream), dw(Size(hidden), 0.25), db(Size(hidden), -0.25);
      reference::LayerNormBackward(p.shape(), dy.data(), x.data(), w.data(), dx.data(), dw.data(),
                                   db.data());
      const Backward back = RunBackward(p, got, stream, true);
      ExpectWithin(back.dx, dx, BackwardBound(hidden), "dx");
      // A sum over rows of terms below 5 x 6, in blocks of 64.
      const double n = static_cast<double>(rows);
      const double bound = (64 + n / 64 + ForwardBound(hidden) / kUnit / 30) * kUnit * (30 * n + 1);
      ExpectWithin(back.dweight, dw, bound, "dweight");
      ExpectWithin(back.dbias, db, bound, "dbias");
    }
  }
}

// mean(x^2) - mean^2 would leave nothing of a variance of 1 beside 4,000^2.
TEST(LayerNormTest, KeepsTheVarianceFarFromZero) {
  const Problem p(3, 100, 4000.0f);
  const Forward got = RunForward(p);
  const Doubles x = Double(p.x), w = Double(p.weight), b = Double(p.bias);
  Doubles y(x.size()), mean(3), rstd(3);
  reference::LayerNorm(p.shape(), x.data(), w.data(), b.data(), y.data(), mean.data(), rstd.data());
  // The mean is off by 10 u of 4,000.
  ExpectWithin(got.y, y, 12 * kUnit * 4000 * 2 * 5, "y");
}

TEST(LayerNormTest, BiasMayBeAbsent) {
  for (const int64_t hidden : {1, 2, 7, 33, 67, 896}) {
    const Problem p(7, hidden);
    const Forward got = RunForward(p, /*biased=*/false);
    const Doubles x = Double(p.x), w = Double(p.weight), dy = Double(p.dy);
    Doubles y(x.size()), mean(7), rstd(7);
    reference::LayerNorm<double>(p.shape(), x.data(), w.data(), nullptr, y.data(), mean.data(),
                                 rstd.data());
    ExpectWithin(got.y, y, ForwardBound(hidden), "y");
    const Floats nan(p.x.size(), std::nanf(""));
    Doubles dx(x.size()), dw(Size(hidden), 0.25), db(Size(hidden));
    reference::LayerNormBackward(p.shape(), dy.data(), x.data(), w.data(), dx.data(), dw.data(),
                                 db.data());
    const Backward back = RunBackward(p, got, nan, /*accumulate=*/false, Frozen::kBias);
    ExpectWithin(back.dx, dx, BackwardBound(hidden), "dx");
    ExpectWithin(back.dweight, dw, (64 + ForwardBound(hidden) / kUnit / 30) * kUnit * (30 * 7 + 1),
                 "dweight");
  }
}

// Invariant kernels-4.
TEST(LayerNormTest, OverwritingEqualsAccumulatingOntoZeroAndMayAliasDy) {
  Problem p(37, 51);
  const Forward forward = RunForward(p);
  const Floats zero(p.x.size(), 0.0f), nan(p.x.size(), std::nanf(""));
  const Floats untouched_weight(51, 0.25f), untouched_bias(51, -0.25f);
  const Backward added = RunBackward(p, forward, zero, true);
  const Backward written = RunBackward(p, forward, nan, false);
  ExpectWithin(written.dx, Double(added.dx), 0.0, "dx");
  EXPECT_TRUE(SameBits(added.dweight, written.dweight));
  EXPECT_TRUE(SameBits(added.dbias, written.dbias));
  const Backward no_weight = RunBackward(p, forward, nan, false, Frozen::kWeight);
  EXPECT_TRUE(SameBits(no_weight.dx, written.dx) && SameBits(no_weight.dbias, written.dbias));
  EXPECT_TRUE(SameBits(no_weight.dweight, untouched_weight));
  const Backward no_bias = RunBackward(p, forward, nan, false, Frozen::kBias);
  EXPECT_TRUE(SameBits(no_bias.dx, written.dx) && SameBits(no_bias.dweight, written.dweight));
  EXPECT_TRUE(SameBits(no_bias.dbias, untouched_bias));
  EXPECT_TRUE(SameBits(RunBackward(p, forward, nan, false, Frozen::kBoth).dx, written.dx));
  LayerNormBackward({.spec = p.spec(),
                     .rows = p.rows,
                     .dy = p.dy.data(),
                     .x = p.x.data(),
                     .weight = p.weight.data(),
                     .mean = forward.mean.data(),
                     .rstd = forward.rstd.data(),
                     .accumulate_dx = false,
                     .dx = p.dy.data()},
                    nullptr);
  EXPECT_TRUE(SameBits(p.dy, written.dx));
}

TEST(LayerNormTest, ResultMayOverwriteInputAndNanStaysInItsRow) {
  Problem p(3, 20);
  p.x[25] = std::numeric_limits<float>::quiet_NaN();
  const Forward want = RunForward(p);
  for (size_t j = 0; j < 20; ++j) {
    EXPECT_TRUE(std::isfinite(want.y[j]) && std::isfinite(want.y[40 + j]));
    EXPECT_TRUE(std::isnan(want.y[20 + j]));
  }
  Floats mean(3), rstd(3);
  LayerNormForward({.spec = p.spec(),
                    .rows = 3,
                    .x = p.x.data(),
                    .weight = p.weight.data(),
                    .bias = p.bias.data(),
                    .y = p.x.data(),
                    .mean = mean.data(),
                    .rstd = rstd.data()},
                   nullptr);
  EXPECT_TRUE(SameBits(p.x, want.y));
}

TEST(LayerNormTest, RefusesBFloat16AndEmptyRows) {
  EXPECT_FALSE(LayerNormSupports({.dtype = DType::kBFloat16, .hidden = 4}));
  EXPECT_FALSE(LayerNormSupports({.hidden = 0}));
}

}  // namespace
}  // namespace layer_norm_test
}  // namespace coxswain::kernels
