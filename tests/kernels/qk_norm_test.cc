#include "kernels/qk_norm.h"

#include "tests/kernels/norm_bounds.h"
#include "tests/kernels/testing.h"
#include "tests/reference/rms_norm.h"

namespace coxswain::kernels {
namespace {

constexpr float kEps = 1e-6f;

struct Problem {
  int64_t tokens;
  QkNormSpec spec{.num_heads = 6, .num_kv_heads = 2, .head_dim = 13, .eps = kEps};
  int64_t normed() const { return spec.num_heads + spec.num_kv_heads; }
  int64_t row() const { return (normed() + spec.num_kv_heads) * spec.head_dim; }
};

TEST(QkNormTest, EqualsRmsNormOfEveryHeadAndLeavesV) {
  for (const int64_t tokens : {0, 1, 63, 65}) {
    const Problem p{.tokens = tokens};
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

TEST(QkNormTest, RefusesEmptyHeads) {
  EXPECT_FALSE(QkNormSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 0}));
}

}  // namespace
}  // namespace coxswain::kernels
