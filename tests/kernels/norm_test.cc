// RMSNorm, add+RMSNorm and QK-norm.
#include <limits>

#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/testing.h"
#include "tests/reference/rms_norm.h"

namespace coxswain::kernels {
namespace {

constexpr float kEps = 1e-6f;

// Mean of n squares of one sign: relative error (n/16 + 5) u in 16 lanes, halved by the square
// root; then at most 4 roundings. Values are below 5 sigma, weights below 5.
double ForwardBound(int64_t hidden) { return (static_cast<double>(hidden) / 32 + 7) * kUnit * 25; }

// dx = r (m - x c) with |c| <= max |m x|: the sum over n terms gives (n/16 + 8) u of 5^4 at most,
// and r <= 2 for rows of unit variance (n = 1: r = 1/|x| cancels the powers of x instead).
double BackwardBound(int64_t hidden) {
  return (static_cast<double>(hidden) / 16 + 8) * kUnit * 625;
}

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
  EXPECT_FALSE(QkNormSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 0}));
}

struct QkProblem {
  int64_t tokens;
  QkNormSpec spec{.num_heads = 6, .num_kv_heads = 2, .head_dim = 13, .eps = kEps};
  int64_t normed() const { return spec.num_heads + spec.num_kv_heads; }
  int64_t row() const { return (normed() + spec.num_kv_heads) * spec.head_dim; }
};

TEST(QkNormTest, EqualsRmsNormOfEveryHeadAndLeavesV) {
  for (const int64_t tokens : {0, 1, 63, 65}) {
    const QkProblem p{.tokens = tokens};
    const int64_t dim = p.spec.head_dim, heads = p.spec.num_heads;
    const Floats qkv = Normal(tokens * p.row(), 1), wq = Normal(dim, 2), wk = Normal(dim, 3);
    const Floats dqkv = Normal(tokens * p.row(), 4);
    Floats out = qkv, saved(Size(tokens * p.normed() * dim)), rstd(Size(tokens * p.normed()));
    QkNormForward({.spec = p.spec,
                   .tokens = tokens,
                   .qkv = out.data(),
                   .q_weight = wq.data(),
                   .k_weight = wk.data(),
                   .saved_qk = saved.data(),
                   .rstd = rstd.data()},
                  nullptr);
    Floats dout = dqkv, dwq(Size(dim), 0.5f), dwk(Size(dim), -0.5f);
    Scratch scratch(QkNormBackwardWorkspaceBytes(p.spec, tokens));
    QkNormBackward({.spec = p.spec,
                    .tokens = tokens,
                    .dqkv = dout.data(),
                    .saved_qk = saved.data(),
                    .rstd = rstd.data(),
                    .q_weight = wq.data(),
                    .k_weight = wk.data(),
                    .dq_weight = dwq.data(),
                    .dk_weight = dwk.data(),
                    .workspace = scratch.view()},
                   nullptr);

    Doubles want = Double(qkv), want_d = Double(dqkv), want_wq(Size(dim), 0.5),
            want_wk(Size(dim), -0.5);
    const Doubles x = Double(qkv), dy = Double(dqkv), weights[2] = {Double(wq), Double(wk)};
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < p.normed(); ++h) {
        const int64_t at = t * p.row() + h * dim;
        const Doubles& w = weights[h < heads ? 0 : 1];
        const reference::RmsNormShape<double> shape{1, dim, kEps};
        double r;
        reference::RmsNorm(shape, &x[Size(at)], w.data(), &want[Size(at)], &r);
        std::fill_n(want_d.begin() + at, dim, 0.0);
        reference::RmsNormBackward(shape, &dy[Size(at)], &x[Size(at)], w.data(), &want_d[Size(at)],
                                   (h < heads ? want_wq : want_wk).data());
      }
    }
    ExpectWithin(out, want, ForwardBound(dim), "qkv");
    ExpectWithin(dout, want_d, BackwardBound(dim), "dqkv");
    const double n = static_cast<double>(tokens * heads);
    ExpectWithin(dwq, want_wq, (64 * 6 + n) * kUnit * (25 * n + 1), "dwq");
    ExpectWithin(dwk, want_wk, (64 * 2 + n) * kUnit * (25 * n + 1), "dwk");

    Floats frozen = dqkv;
    QkNormBackward({.spec = p.spec,
                    .tokens = tokens,
                    .dqkv = frozen.data(),
                    .saved_qk = saved.data(),
                    .rstd = rstd.data(),
                    .q_weight = wq.data(),
                    .k_weight = wk.data(),
                    .workspace = {}},
                   nullptr);
    EXPECT_TRUE(SameBits(frozen, dout));
  }
}

}  // namespace
}  // namespace coxswain::kernels
