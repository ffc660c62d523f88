#include "kernels/loss/cut_cross_entropy.h"

#include <limits>

#include "kernels/loss/cross_entropy.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/loss/cut_cross_entropy_cases.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace cut_cross_entropy_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Run {
  int64_t more_bytes = 0;  // of workspace than the least
  bool frozen = false;     // no dW
  Floats found = {};       // dW before, to which it is added; empty: NaN, not read
};

CutResult Compute(const CutProblem& p, const Run& run = {}) {
  const int64_t rows = p.rows(), matrix = p.spec.vocab * p.spec.hidden;
  CutResult r{Floats(Size(rows), kNan), Floats(Size(rows), kNan),
              Floats(Size(rows), kNan), Floats(Size(2 * rows), kNan),
              Floats(p.x.size(), kNan), run.found.empty() ? Floats(Size(matrix), kNan) : run.found};
  const int64_t bytes = CutCrossEntropyWorkspaceBytes(p.spec, rows) + run.more_bytes;
  Scratch forward(bytes), backward(bytes);
  const ExpectNoAllocation launches;
  CutCrossEntropyForward({.spec = p.spec,
                          .rows = rows,
                          .x = p.x.data(),
                          .weight = p.weight.data(),
                          .targets = p.targets.data(),
                          .loss = r.loss.data(),
                          .nll = r.nll.data(),
                          .hits = r.hits.data(),
                          .statistics = r.statistics.data(),
                          .workspace = forward.view()},
                         nullptr);
  CutCrossEntropyBackward({.spec = p.spec,
                           .rows = rows,
                           .x = p.x.data(),
                           .weight = p.weight.data(),
                           .targets = p.targets.data(),
                           .statistics = r.statistics.data(),
                           .gradient_scale = &p.scale,
                           .row_weights = p.row_weights.empty() ? nullptr : p.row_weights.data(),
                           .dx = r.dx.data(),
                           .dweight = run.frozen ? nullptr : r.dweight.data(),
                           .accumulate = !run.found.empty(),
                           .workspace = backward.view()},
                          nullptr);
  return r;
}

CutProblem Make(const CutCrossEntropySpec& spec, int64_t rows) {
  return {.spec = spec,
          .targets = CutTargets(rows, spec.vocab),
          .x = Normal(rows * spec.hidden, 1),
          .weight = Normal(spec.vocab * spec.hidden, 2,
                           3.0f / std::sqrt(static_cast<float>(spec.hidden)))};
}
CutProblem Usual() { return Make({.hidden = 40, .vocab = 1000, .label_smoothing = 0.1f}, 23); }

TEST(CutCrossEntropyTest, MatchesReferenceForEveryTailAndOption) {
  for (const CutExtents& shape : CutShapes()) {
    for (const CutCrossEntropySpec& spec : CutOptions(shape.hidden, shape.vocab)) {
      const CutProblem p = Make(spec, shape.rows);
      ExpectCut(p, Compute(p), CutReference(p, kUnit).expected());
    }
  }
}

TEST(CutCrossEntropyTest, OnePanelOrSeveralAgree) {
  for (const CutCrossEntropySpec& spec : CutOptions(40, 1000)) {
    const CutProblem p = Make(spec, 23);
    const CutExpected want = CutReference(p, kUnit).expected();
    for (const int64_t tiles : {0, 1, 2, 3}) {
      ExpectCut(p, Compute(p, {.more_bytes = tiles * 23 * 256 * 4}), want);
    }
  }
}

// The head whose logits are there, on the same inputs: both are within the bound of the truth.
TEST(CutCrossEntropyTest, AgreesWithTheHeadThatKeepsItsLogits) {
  const CutProblem p = Usual();
  const CutCrossEntropySpec& spec = p.spec;
  const CutResult got = Compute(p, {.more_bytes = 1 << 20});
  CutExpected want = CutReference(p, kUnit).expected();
  Floats logits(Size(p.rows() * spec.vocab)), loss(Size(p.rows())), hits(loss), dx(p.x.size()),
      dweight(p.weight.size());
  Gemm({.spec = {.transpose_b = true},
        .m = p.rows(),
        .n = spec.vocab,
        .k = spec.hidden,
        .a = p.x.data(),
        .lda = spec.hidden,
        .b = p.weight.data(),
        .ldb = spec.hidden,
        .c = logits.data(),
        .ldc = spec.vocab},
       nullptr);
  TargetHits({.spec = {.vocab = spec.vocab},
              .rows = p.rows(),
              .logits = logits.data(),
              .targets = p.targets.data(),
              .hits = hits.data()},
             nullptr);
  CrossEntropy({.spec = {.vocab = spec.vocab, .label_smoothing = spec.label_smoothing},
                .rows = p.rows(),
                .logits = logits.data(),
                .targets = p.targets.data(),
                .gradient_scale = &p.scale,
                .loss = loss.data()},
               nullptr);
  Gemm({.spec = {},
        .m = p.rows(),
        .n = spec.hidden,
        .k = spec.vocab,
        .a = logits.data(),
        .lda = spec.vocab,
        .b = p.weight.data(),
        .ldb = spec.hidden,
        .c = dx.data(),
        .ldc = spec.hidden},
       nullptr);
  Gemm({.spec = {.transpose_a = true},
        .m = spec.vocab,
        .n = spec.hidden,
        .k = p.rows(),
        .a = logits.data(),
        .lda = spec.vocab,
        .b = p.x.data(),
        .ldb = spec.hidden,
        .c = dweight.data(),
        .ldc = spec.hidden},
       nullptr);
  const auto twice = [](const Floats& kept, const Bounded& of) {
    Bounded both{Double(kept), of.bound};
    for (double& bound : both.bound) bound *= 2;
    return both;
  };
  EXPECT_TRUE(SameBits(got.hits, hits));
  ExpectBounded(got.loss, twice(loss, want.loss), "loss");
  ExpectBounded(got.dx, twice(dx, want.dx), "dx");
  ExpectBounded(got.dweight, twice(dweight, want.dweight), "dW");
}

TEST(CutCrossEntropyTest, WeightsOfRowsScaleTheirGradients) {
  CutProblem p = Usual();
  const CutResult plain = Compute(p);
  for (int64_t i = 0; i < p.rows(); ++i)
    p.row_weights.push_back(0.5f * static_cast<float>(i % 4) - 0.5f);
  const CutResult got = Compute(p);
  EXPECT_TRUE(SameBits(got.loss, plain.loss));
  ExpectCut(p, got, CutReference(p, kUnit).expected());
}

TEST(CutCrossEntropyTest, AFrozenWeightLeavesTheGradientOfTheInput) {
  const CutProblem p = Usual();
  const CutResult got = Compute(p, {.frozen = true});
  EXPECT_TRUE(SameBits(got.dx, Compute(p).dx));
  EXPECT_TRUE(std::isnan(got.dweight[0]));
}

// Invariant kernels-4 for what is not added to.
TEST(CutCrossEntropyTest, AddsToTheGradientOfTheWeight) {
  const CutProblem p = Usual();
  const Floats before = Normal(static_cast<int64_t>(p.weight.size()), 3, 0.1f);
  CutExpected want = CutReference(p, kUnit).expected();
  for (size_t i = 0; i < before.size(); ++i) {
    want.dweight.value[i] += before[i];
    want.dweight.bound[i] += 2 * kUnit * (std::abs(before[i]) + std::abs(want.dweight.value[i]));
  }
  ExpectCut(p, Compute(p, {.found = before}), want);
}

// Invariant kernels-3.
TEST(CutCrossEntropyTest, RepeatsItsBits) {
  const CutProblem p = Usual();
  const CutResult got = Compute(p);
  EXPECT_TRUE(SameCutBits(Compute(p), got));
  SetNumThreads(1);
  const CutResult alone = Compute(p);
  SetNumThreads(2);
  EXPECT_TRUE(SameBits(alone.loss, got.loss) && SameBits(alone.statistics, got.statistics));
}

TEST(CutCrossEntropyTest, IgnoredRowsAndNansStayAlone) {
  ExpectIgnoredRowsAndNansStayAlone(
      Usual(), [](const CutProblem& p) { return Compute(p, {.frozen = true}); });
}

// Of equal largest logits the first one counts, whichever panel it is in.
TEST(CutCrossEntropyTest, HitsAreThoseOfTheFirstMaximum) {
  CutProblem p = Make({.hidden = 1, .vocab = 1000}, 4);
  p.x.assign(4, 1.0f);
  p.weight.assign(1000, 0.0f);
  p.weight[300] = p.weight[700] = 2.0f;
  p.targets = {300, 700, 0, 999};
  for (const int64_t tiles : {0, 3}) {
    EXPECT_EQ(Compute(p, {.more_bytes = tiles * 4 * 256 * 4}).hits, (Floats{1, 0, 0, 0}));
  }
}

TEST(CutCrossEntropyTest, NoRowsDoNothing) {
  CutProblem p = Make({.hidden = 8, .vocab = 300}, 0);
  EXPECT_EQ(CutCrossEntropyWorkspaceBytes(p.spec, 0), 0);
  EXPECT_TRUE(std::isnan(Compute(p).dweight[0]));
}

TEST(CutCrossEntropyTest, RefusesWhatBreaksTheContract) {
  CutProblem p = Usual();
  EXPECT_THROW(Compute(p, {.more_bytes = -64}), std::invalid_argument);
  p.targets[2] = 1000;
  EXPECT_THROW(Compute(p), std::invalid_argument);
  EXPECT_FALSE(CutCrossEntropySupports({.hidden = 8, .vocab = 5, .logit_scale = 0.0f}));
  EXPECT_FALSE(CutCrossEntropySupports({.dtype = DType::kBFloat16, .hidden = 8, .vocab = 5}));
}

}  // namespace
}  // namespace cut_cross_entropy_test
}  // namespace coxswain::kernels
