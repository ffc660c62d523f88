#include "kernels/attention/heads.h"

#include "tests/kernels/norm_bounds.h"
#include "tests/kernels/testing.h"
#include "tests/reference/norms.h"

namespace coxswain::kernels {
namespace qk_norm_test {
namespace {

constexpr float kEps = 1e-6f;

// The norms of one token that share a weight vector: of q, and of k.
struct Norms {
  int64_t first, count, width;
};

struct Problem {
  Problem(int64_t tokens, bool whole, float weight_offset)
      : tokens(tokens),
        spec{.num_heads = 6,
             .num_kv_heads = 2,
             .head_dim = 13,
             .eps = kEps,
             .weight_offset = weight_offset,
             .whole = whole},
        qkv(Normal(tokens * 10 * 13, 1)),
        dqkv(Normal(tokens * 10 * 13, 4)),
        weights{Normal(norms(0).width, 2), Normal(norms(1).width, 3)} {}
  Norms norms(int part) const {
    const int64_t dim = spec.head_dim, heads = part == 0 ? spec.num_heads : spec.num_kv_heads;
    const int64_t first = part == 0 ? 0 : spec.num_heads * dim;
    return spec.whole ? Norms{first, 1, heads * dim} : Norms{first, heads, dim};
  }
  int64_t normed() const { return (spec.num_heads + spec.num_kv_heads) * spec.head_dim; }
  int64_t row() const { return normed() + spec.num_kv_heads * spec.head_dim; }

  int64_t tokens;
  QkNormSpec spec;
  Floats qkv, dqkv, weights[2];
};

struct Result {
  Floats qkv, saved, rstd, dqkv, dweights[2];
};

// The weight gradients start at 0.5 and -0.5.
Result Run(const Problem& p, bool frozen = false) {
  Result r{.qkv = p.qkv,
           .saved = Floats(Size(p.tokens * p.normed())),
           .rstd = Floats(Size(p.tokens * (p.norms(0).count + p.norms(1).count))),
           .dqkv = p.dqkv,
           .dweights = {Floats(p.weights[0].size(), 0.5f), Floats(p.weights[1].size(), -0.5f)}};
  Scratch scratch(frozen ? 0 : QkNormBackwardWorkspaceBytes(p.spec, p.tokens));
  const ExpectNoAllocation launches;
  QkNormForward({.spec = p.spec,
                 .tokens = p.tokens,
                 .qkv = r.qkv.data(),
                 .q_weight = p.weights[0].data(),
                 .k_weight = p.weights[1].data(),
                 .saved_qk = r.saved.data(),
                 .rstd = r.rstd.data()},
                nullptr);
  QkNormBackward({.spec = p.spec,
                  .tokens = p.tokens,
                  .dqkv = r.dqkv.data(),
                  .saved_qk = r.saved.data(),
                  .rstd = r.rstd.data(),
                  .q_weight = p.weights[0].data(),
                  .k_weight = p.weights[1].data(),
                  .dq_weight = frozen ? nullptr : r.dweights[0].data(),
                  .dk_weight = frozen ? nullptr : r.dweights[1].data(),
                  .workspace = scratch.view()},
                 nullptr);
  return r;
}

// RmsNorm of the part's rows, with weights o + w; the other part and v stay.
void ApplyReference(const Problem& p, int part, Doubles* y, Doubles* dx, Doubles* dweight) {
  const Norms norms = p.norms(part);
  const Doubles x = Double(p.qkv), dy = Double(p.dqkv);
  Doubles weight = Double(p.weights[part]);
  for (double& w : weight) w += p.spec.weight_offset;
  const reference::RmsNormShape<double> shape{1, norms.width, kEps};
  for (int64_t t = 0; t < p.tokens; ++t) {
    for (int64_t i = 0; i < norms.count; ++i) {
      const size_t at = Size(t * p.row() + norms.first + i * norms.width);
      double r;
      reference::RmsNorm(shape, &x[at], weight.data(), &(*y)[at], &r);
      std::fill_n(dx->begin() + static_cast<int64_t>(at), norms.width, 0.0);
      reference::RmsNormBackward(shape, &dy[at], &x[at], weight.data(), &(*dx)[at],
                                 dweight->data());
    }
  }
}

void Check(const Problem& p) {
  const Result got = Run(p);
  Doubles y = Double(p.qkv), dx = Double(p.dqkv);
  Doubles dweights[2] = {Doubles(p.weights[0].size(), 0.5), Doubles(p.weights[1].size(), -0.5)};
  for (const int part : {0, 1}) ApplyReference(p, part, &y, &dx, &dweights[part]);
  ExpectWithin(got.qkv, y, ForwardBound(p.norms(0).width), "qkv");
  ExpectWithin(got.dqkv, dx, BackwardBound(p.norms(0).width), "dqkv");
  for (const int part : {0, 1}) {
    // A sum over rows of dy x r, each below 25, in blocks of 64 tokens.
    const double count = static_cast<double>(p.norms(part).count);
    const double n = static_cast<double>(p.tokens) * count;
    ExpectWithin(got.dweights[part], dweights[part], (64 * count + n) * kUnit * (25 * n + 1),
                 part == 0 ? "dwq" : "dwk");
  }
  EXPECT_TRUE(SameBits(Run(p, /*frozen=*/true).dqkv, got.dqkv));
}

TEST(QkNormTest, EqualsRmsNormOfEveryHeadAndLeavesV) {
  for (const int64_t tokens : {0, 1, 63, 65}) Check(Problem(tokens, false, 0.0f));
}

TEST(QkNormTest, EqualsRmsNormOverAllHeads) {
  for (const int64_t tokens : {0, 1, 63, 65}) Check(Problem(tokens, true, 0.0f));
}

TEST(QkNormTest, WeightsMayCountFromOne) {
  for (const bool whole : {false, true}) Check(Problem(65, whole, 1.0f));
}

TEST(QkNormTest, RefusesEmptyHeads) {
  EXPECT_FALSE(QkNormSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 0}));
}

}  // namespace
}  // namespace qk_norm_test
}  // namespace coxswain::kernels
