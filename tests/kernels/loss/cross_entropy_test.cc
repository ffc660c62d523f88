#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "kernels/loss/cross_entropy.h"
#include "tests/kernels/loss/target_hits_cases.h"
#include "tests/kernels/testing.h"
#include "tests/reference/cross_entropy.h"

namespace coxswain::kernels {

namespace cross_entropy_test {
namespace {

struct Result {
  Floats loss, nll, logits;
};

Result Compute(const CrossEntropySpec& spec, const Floats& logits,
               const std::vector<int32_t>& targets, const float* scale) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Result r{Floats(targets.size(), nan), Floats(targets.size(), nan), logits};
  const ExpectNoAllocation launches;
  CrossEntropy({.spec = spec,
                .rows = static_cast<int64_t>(targets.size()),
                .logits = r.logits.data(),
                .targets = targets.data(),
                .gradient_scale = scale,
                .loss = r.loss.data(),
                .nll = r.nll.data()},
               nullptr);
  return r;
}

// Exp is within 4 u, a block sum of 1,024 in 16 lanes within 70 u, the logarithm and what follows
// is in double: lse is off by 74 u plus the rounding of the largest logit to float in z - max. The
// loss rounds once. A probability adds Exp's 4 u, its factor's u and a product. A capped logit is
// off by 8 k u, once in lse and once where it is used, and its slope 1 - (z/k)^2 by 20 u.
void Check(const CrossEntropySpec& spec, const Floats& logits,
           const std::vector<int32_t>& targets) {
  const float scale = 0.125f;
  const Result got = Compute(spec, logits, targets, &scale),
               lone = Compute(spec, logits, targets, nullptr);
  EXPECT_TRUE(SameBits(lone.logits, logits)) << "losses only leave the logits";
  EXPECT_TRUE(SameBits(lone.loss, got.loss));
  Floats kept = logits, elsewhere(logits.size()), loss(targets.size());
  CrossEntropy({.spec = spec,
                .rows = static_cast<int64_t>(targets.size()),
                .logits = kept.data(),
                .gradient = elsewhere.data(),
                .targets = targets.data(),
                .gradient_scale = &scale,
                .loss = loss.data()},
               nullptr);
  EXPECT_TRUE(SameBits(elsewhere, got.logits) && SameBits(kept, logits));
  const Doubles z = Double(logits);
  const reference::CrossEntropyOptions<double> options{spec.label_smoothing, spec.z_loss,
                                                       spec.softcap};
  for (size_t i = 0; i < targets.size(); ++i) {
    const double* row = &z[i * Size(spec.vocab)];
    const auto want = reference::CrossEntropy(options, row, spec.vocab, targets[i]);
    const double size = std::abs(want.lse) + std::abs(row[targets[i]]) + 1;
    const double capped = 16 * spec.softcap;
    const double z_slope = 1 + 2 * spec.z_loss * std::abs(want.lse);
    ASSERT_NEAR(got.loss[i], want.loss,
                ((80 + capped) * z_slope + 80 * size) * kUnit + std::abs(want.loss) * kUnit);
    ASSERT_NEAR(got.nll[i], want.nll, (80 + capped + 80 * size) * kUnit);
    Doubles dz(Size(spec.vocab));
    reference::CrossEntropyBackward<double>(options, row, spec.vocab, targets[i], scale, dz.data());
    for (size_t v = 0; v < dz.size(); ++v) {
      // exp(z - max) is off by u |z - max| relative: below 90 u where it matters.
      ASSERT_NEAR(got.logits[i * dz.size() + v], dz[v],
                  ((170 + capped) * z_slope + 110) * kUnit * scale);
    }
  }
}

// The gradient of a row with a weight is that of the scale times it; the losses have no weight.
TEST(CrossEntropyTest, WeightsOfRowsScaleTheirGradients) {
  const CrossEntropySpec spec{.vocab = 97, .label_smoothing = 0.1f, .z_loss = 1e-2f};
  const Floats logits = Normal(3 * spec.vocab, 4, 3.0f), weights = {0.5f, -2.0f, 0.0f};
  const std::vector<int32_t> targets = {1, 96, 5};
  const float scale = 0.125f;
  Floats gradient = logits, loss(3), nll(3);
  CrossEntropy({.spec = spec,
                .rows = 3,
                .logits = gradient.data(),
                .targets = targets.data(),
                .gradient_scale = &scale,
                .row_weights = weights.data(),
                .loss = loss.data(),
                .nll = nll.data()},
               nullptr);
  for (size_t row = 0; row < 3; ++row) {
    const float own = scale * weights[row];
    const Result want = Compute(spec, logits, targets, &own);
    EXPECT_EQ(loss[row], want.loss[row]);
    EXPECT_TRUE(std::equal(&gradient[row * 97], &gradient[row * 97] + 97, &want.logits[row * 97]))
        << row;
  }
}

TEST(CrossEntropyTest, MatchesReferenceForEveryTailAndOption) {
  for (const int64_t vocab : {1, 2, 5, 7, 15, 16, 17, 97, 1023, 1024, 1025, 3001}) {
    const Floats logits = Normal(4 * vocab, 1, 3.0f);
    const int32_t last = static_cast<int32_t>(vocab - 1);
    for (const auto& [smoothing, z_loss] :
         {std::pair{0.0f, 0.0f}, {0.1f, 0.0f}, {0.0f, 1e-2f}, {0.3f, 1e-3f}}) {
      Check({.vocab = vocab, .label_smoothing = smoothing, .z_loss = z_loss}, logits,
            {0, last, last / 2, 0});
      Check({.vocab = vocab, .label_smoothing = smoothing, .z_loss = z_loss, .softcap = 5.0f},
            logits, {0, last, last / 2, 0});
    }
  }
}

// What lies between rows is NaN: it must not be seen, and be 0 behind a gradient.
TEST(CrossEntropyTest, RowsApartEqualRowsSideBySide) {
  const float scale = 0.125f, nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [vocab, ld] : {std::pair<int64_t, int64_t>{1, 4}, {97, 100}, {1025, 1056}}) {
    const std::vector<int32_t> targets = {static_cast<int32_t>(vocab - 1), kIgnoreTarget, 0};
    const Floats logits = Normal(3 * vocab, 1, 3.0f);
    for (const float softcap : {0.0f, 5.0f}) {
      for (const float* gradient : {&scale, static_cast<const float*>(nullptr)}) {
        const CrossEntropySpec spec{
            .vocab = vocab, .label_smoothing = 0.1f, .z_loss = 1e-2f, .softcap = softcap};
        const Result want = Compute(spec, logits, targets, gradient);
        Floats apart = SpreadRows(logits, vocab, ld, nan), loss(3, nan), nll(3, nan);
        CrossEntropy({.spec = spec,
                      .rows = 3,
                      .logits = apart.data(),
                      .ld = ld,
                      .targets = targets.data(),
                      .gradient_scale = gradient,
                      .loss = loss.data(),
                      .nll = nll.data()},
                     nullptr);
        EXPECT_TRUE(SameBits(loss, want.loss) && SameBits(nll, want.nll)) << vocab;
        const float between = gradient == nullptr ? nan : 0.0f;
        EXPECT_TRUE(SameBits(apart, SpreadRows(want.logits, vocab, ld, between))) << vocab;
      }
    }
  }
  EXPECT_THROW(CrossEntropy({.spec = {.vocab = 5}, .ld = 4}, nullptr), std::invalid_argument);
}

// Invariant kernels-6.
TEST(CrossEntropyTest, IgnoredRowsGiveZeroWhateverTheirLogits) {
  Floats logits = Normal(15, 1);
  logits[6] = std::numeric_limits<float>::quiet_NaN();
  const float scale = 1.0f;
  const Result r = Compute({.vocab = 5, .label_smoothing = 0.1f, .z_loss = 1.0f}, logits,
                           {kIgnoreTarget, kIgnoreTarget, kIgnoreTarget}, &scale);
  EXPECT_EQ(r.loss, Floats(3, 0.0f));
  EXPECT_EQ(r.nll, Floats(3, 0.0f));
  EXPECT_EQ(r.logits, Floats(15, 0.0f));
  EXPECT_TRUE(Compute({.vocab = 5}, {}, {}, &scale).loss.empty());
}

TEST(CrossEntropyTest, IgnoredRowsLeaveTheOthersBitEqual) {
  const Floats logits = Normal(30, 1);
  const float scale = 0.5f;
  const Result all = Compute({.vocab = 10}, logits, {3, 4, 5}, &scale);
  const Result some = Compute({.vocab = 10}, logits, {3, kIgnoreTarget, 5}, &scale);
  EXPECT_TRUE(std::equal(some.logits.begin(), some.logits.begin() + 10, all.logits.begin()));
  EXPECT_TRUE(std::equal(some.logits.begin() + 20, some.logits.end(), all.logits.begin() + 20));
}

TEST(CrossEntropyTest, CertainTargetKeepsItsSmallGradient) {
  // p_y = 1 - 2e-7: p_y - 1 in float32 must not collapse to 0 nor to bf16's grid.
  Floats logits(100, -20.0f);
  logits[7] = 0.0f;
  const float scale = 1.0f;
  const Result r = Compute({.vocab = 100}, logits, {7}, &scale);
  const double others = 99 * std::exp(-20.0);
  EXPECT_NEAR(r.logits[7], -others / (1 + others), 80 * kUnit);
  EXPECT_NEAR(r.loss[0], std::log1p(others), 80 * kUnit);
  EXPECT_NEAR(r.logits[0] / std::exp(-20.0), 1.0, 90 * kUnit);
}

TEST(CrossEntropyTest, LogitsOfTenThousand) {
  Floats logits = Normal(64, 1);
  for (float& z : logits) z *= 1e4f;
  Check({.vocab = 32}, logits, {3, 9});
  Floats tied(32, 1e4f);
  Check({.vocab = 32, .label_smoothing = 0.1f}, tied, {3});
}

TEST(CrossEntropyTest, MinusInfinityIsAForbiddenToken) {
  Floats logits = Normal(20, 1);
  logits[4] = -std::numeric_limits<float>::infinity();
  const float scale = 1.0f;
  const Result r = Compute({.vocab = 20}, logits, {7}, &scale);
  EXPECT_TRUE(std::isfinite(r.loss[0]));
  EXPECT_EQ(r.logits[4], 0.0f);
  for (float g : r.logits) EXPECT_TRUE(std::isfinite(g));
}

// Invariant kernels-6.
TEST(CrossEntropyTest, NanReachesItsRowOnly) {
  for (const size_t where : {size_t{2}, size_t{19}}) {
    Floats logits = Normal(40, 1);
    logits[where] = std::numeric_limits<float>::quiet_NaN();
    const float scale = 1.0f;
    const Result r = Compute({.vocab = 20}, logits, {7, 7}, &scale);
    EXPECT_TRUE(std::isnan(r.loss[0]));
    EXPECT_TRUE(std::isfinite(r.loss[1]));
    for (size_t v = 0; v < 20; ++v) {
      EXPECT_TRUE(std::isnan(r.logits[v]));
      EXPECT_TRUE(std::isfinite(r.logits[20 + v]));
    }
  }
}

TEST(CrossEntropyTest, GradientsOfARowSumToZero) {
  const int64_t vocab = 4096;
  const Floats logits = Normal(vocab, 5, 2.0f);
  const float scale = 1.0f;
  const Result r = Compute({.vocab = vocab, .label_smoothing = 0.1f}, logits, {17}, &scale);
  double sum = 0;
  for (float g : r.logits) sum += g;
  EXPECT_NEAR(sum, 0.0, 160 * kUnit);
}

// Invariant kernels-2. Only the last row is touched: the rest of the memory never exists.
TEST(CrossEntropyTest, RowsBehindTwoToThe31Elements) {
  const int64_t vocab = 151936, rows = (int64_t{1} << 31) / vocab + 3;
  const size_t bytes = Size(rows * vocab) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "needs 8.6 GB of address space";
  float* logits = static_cast<float*>(memory);
  logits[rows * vocab - 1] = 10.0f;
  std::vector<int32_t> targets(Size(rows), kIgnoreTarget);
  targets.back() = static_cast<int32_t>(vocab - 1);
  Floats loss(Size(rows), -1.0f);
  CrossEntropy({.spec = {.vocab = vocab},
                .rows = rows,
                .logits = logits,
                .targets = targets.data(),
                .loss = loss.data()},
               nullptr);
  EXPECT_EQ(loss[0], 0.0f);
  const double want = std::log1p(static_cast<double>(vocab - 1) * std::exp(-10.0));
  EXPECT_NEAR(loss.back(), want, (80 + want) * kUnit);
  munmap(memory, bytes);
}

TEST(CrossEntropyTest, RefusesATargetOutsideTheVocabulary) {
  for (const int32_t target : {-1, 5, -101}) {
    EXPECT_THROW(Compute({.vocab = 5}, Floats(5, 0.0f), {target}, nullptr), std::invalid_argument);
  }
  EXPECT_FALSE(CrossEntropySupports({.vocab = 5, .label_smoothing = 1.0f}));
  EXPECT_FALSE(CrossEntropySupports({.vocab = 5, .z_loss = -1.0f}));
  EXPECT_FALSE(CrossEntropySupports({.vocab = 5, .softcap = -1.0f}));
}

}  // namespace
}  // namespace cross_entropy_test

namespace target_hits_test {
namespace {

// `padding` NaN elements between rows.
Floats Hits(const Floats& rows_of_logits, const std::vector<int32_t>& targets,
            int64_t padding = 0) {
  const auto rows = static_cast<int64_t>(targets.size());
  const int64_t vocab = static_cast<int64_t>(rows_of_logits.size()) / rows;
  const Floats logits =
      SpreadRows(rows_of_logits, vocab, vocab + padding, std::numeric_limits<float>::quiet_NaN());
  Floats hits(targets.size(), std::numeric_limits<float>::quiet_NaN());
  const ExpectNoAllocation launches;
  TargetHits({.spec = {.vocab = vocab},
              .rows = rows,
              .logits = logits.data(),
              .ld = padding == 0 ? 0 : vocab + padding,
              .targets = targets.data(),
              .hits = hits.data()},
             nullptr);
  return hits;
}

TEST(TargetHitsTest, EqualsTheFirstMaximumForEveryTail) {
  for (const int64_t vocab : {1, 2, 7, 15, 16, 17, 97, 1023, 1025, 3001}) {
    const int64_t rows = 40;
    const TargetHitsCase c = RoundedTargetHits(Normal(rows * vocab, 1, 3.0f), vocab);
    EXPECT_TRUE(SameBits(Hits(c.logits, c.targets), c.hits)) << vocab;
    EXPECT_TRUE(SameBits(Hits(c.logits, c.targets, 3), c.hits)) << vocab;
  }
}

TEST(TargetHitsTest, OfEqualMaximaTheFirstCounts) {
  EXPECT_EQ(Hits({1, 3, 3, 0, 1, 3, 3, 0}, {1, 2}), (Floats{1, 0}));
}

TEST(TargetHitsTest, IgnoredRowsAndRowsWithNaNAreNoHits) {
  const TargetHitsCase c = NoTargetHits();
  EXPECT_EQ(Hits(c.logits, c.targets), c.hits);
}

TEST(TargetHitsTest, NoRowsDoNothing) { TargetHits({.spec = {.vocab = 8}}, nullptr); }

}  // namespace
}  // namespace target_hits_test

namespace argmax_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// `padding` infinite elements between rows.
std::vector<int32_t> Columns(const Floats& rows, int64_t columns, int64_t padding = 0) {
  const Floats values = SpreadRows(rows, columns, columns + padding, kInfinity);
  std::vector<int32_t> found(rows.size() / Size(columns), -7);
  const ExpectNoAllocation launches;
  Argmax({.spec = {.columns = columns},
          .rows = static_cast<int64_t>(found.size()),
          .values = values.data(),
          .ld = padding == 0 ? 0 : columns + padding,
          .columns = found.data()},
         nullptr);
  return found;
}

TEST(ArgmaxTest, IsTheFirstMaximumForEveryTail) {
  for (const int64_t columns : {1, 2, 7, 15, 16, 17, 97, 1023, 1025, 3001}) {
    const Floats values = Normal(40 * columns, 1);
    std::vector<int32_t> want;
    for (auto row = values.begin(); row != values.end(); row += columns) {
      want.push_back(static_cast<int32_t>(std::max_element(row, row + columns) - row));
    }
    EXPECT_EQ(Columns(values, columns), want) << columns;
    EXPECT_EQ(Columns(values, columns, 3), want) << columns;
  }
}

TEST(ArgmaxTest, OfEqualMaximaTheFirstCounts) {
  EXPECT_EQ(Columns({1, 3, 3, 0, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, 4),
            (std::vector<int32_t>{1, 0}));
}

// Invariant kernels-6.
TEST(ArgmaxTest, ARowWithNaNHasNone) {
  Floats values = Normal(3 * 100, 1);
  values[99] = kNaN;
  values[100] = kNaN;
  const std::vector<int32_t> found = Columns(values, 100);
  EXPECT_EQ(found[0], -1);
  EXPECT_EQ(found[1], -1);
  EXPECT_GE(found[2], 0);
}

TEST(ArgmaxTest, NoRowsDoNothing) { Argmax({.spec = {.columns = 8}}, nullptr); }

}  // namespace
}  // namespace argmax_test

}  // namespace coxswain::kernels
