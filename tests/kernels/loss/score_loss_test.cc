#include <cmath>
#include <vector>

#include "kernels/loss/score_loss.h"
#include "kernels/loss/score_terms.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {

namespace score_head_test {
namespace {

int64_t Length(const std::vector<int32_t>& rows) { return static_cast<int64_t>(rows.size()); }

// Odd extents, a place without a document, a row that no document has.
constexpr int64_t kTokens = 9, kWidth = 37, kLabels = 3;
const std::vector<int32_t> kRows = {4, -1, 0, 8};

struct Case {
  Floats x = Normal(kTokens * kWidth, 1), weight = Normal(kLabels * kWidth, 2);
  Floats d = Normal(Length(kRows) * kLabels, 3);
};

ScoreHeadSpec Spec() { return {.dtype = DType::kFloat32, .width = kWidth, .labels = kLabels}; }

TEST(ScoreHeadTest, ScoresAreProductsWithOneRowADocument) {
  const Case c;
  Floats scores(Size(Length(kRows) * kLabels), 7.0f);
  {
    const ExpectNoAllocation none;
    ScoreHeadForward({.spec = Spec(),
                      .documents = Length(kRows),
                      .rows = kRows.data(),
                      .x = c.x.data(),
                      .weight = c.weight.data(),
                      .scores = scores.data()},
                     nullptr);
  }
  for (int64_t i = 0; i < Length(kRows); ++i) {
    for (int64_t l = 0; l < kLabels; ++l) {
      double want = 0, norm = 0;
      for (int64_t h = 0; h < kWidth && kRows[Size(i)] >= 0; ++h) {
        const double product = static_cast<double>(c.x[Size(kRows[Size(i)] * kWidth + h)]) *
                               c.weight[Size(l * kWidth + h)];
        want += product;
        norm += std::abs(product);
      }
      EXPECT_NEAR(scores[Size(i * kLabels + l)], want, std::ldexp(norm, -24)) << i << " " << l;
    }
  }
}

// Both gradients against their sums in double, scaled; dx of other rows stays.
TEST(ScoreHeadTest, GradientsOfRowsAndWeight) {
  const Case c;
  const float scale = 0.25f;
  Floats dx(Size(kTokens * kWidth), 7.0f), dw(Size(kLabels * kWidth), 1.0f);
  ScoreHeadBackwardArgs args{.spec = Spec(),
                             .documents = Length(kRows),
                             .rows = kRows.data(),
                             .x = c.x.data(),
                             .weight = c.weight.data(),
                             .dscores = c.d.data(),
                             .scale = &scale,
                             .dx = dx.data(),
                             .dweight = dw.data(),
                             .accumulate = true};
  {
    const ExpectNoAllocation none;
    ScoreHeadBackward(args, nullptr);
  }
  for (int64_t h = 0; h < kWidth; ++h) {
    for (int64_t l = 0; l < kLabels; ++l) {
      double want = 0;
      for (int64_t i = 0; i < Length(kRows); ++i) {
        if (kRows[Size(i)] < 0) continue;
        want += static_cast<double>(c.d[Size(i * kLabels + l)]) *
                c.x[Size(kRows[Size(i)] * kWidth + h)];
      }
      want = scale * want + 1.0;
      EXPECT_NEAR(dw[Size(l * kWidth + h)], want, std::ldexp(2 + std::abs(want), -23)) << h << l;
    }
    EXPECT_EQ(dx[Size(1 * kWidth + h)], 7.0f);
    double want = 0;
    for (int64_t l = 0; l < kLabels; ++l) {
      want += static_cast<double>(c.d[Size(3 * kLabels + l)]) * c.weight[Size(l * kWidth + h)];
    }
    EXPECT_NEAR(dx[Size(8 * kWidth + h)], scale * want, std::ldexp(std::abs(want), -24)) << h;
  }
  args.accumulate = false;
  args.documents = 0;
  ScoreHeadBackward(args, nullptr);
  EXPECT_EQ(dw, Floats(dw.size(), 0.0f)) << "no document: the gradient is 0, not what was there";
}

TEST(ScoreHeadTest, SupportsHeadsOfAtLeastOneLabel) {
  EXPECT_TRUE(ScoreHeadSupports(Spec()));
  EXPECT_FALSE(ScoreHeadSupports({.width = 4, .labels = 0}));
  EXPECT_FALSE(ScoreHeadSupports({.width = 4, .labels = 65536}));
}

}  // namespace
}  // namespace score_head_test

namespace score_loss_test {
namespace {

int64_t Length(const std::vector<int32_t>& rows) { return static_cast<int64_t>(rows.size()); }

struct Case {
  ScoreLossSpec spec;
  std::vector<int32_t> rows;
  Floats scores, values;
};

// The last pair, or the last document, is not there.
Case CaseOf(ScoreTerm type, int64_t labels) {
  Case c{.spec = {.type = type, .labels = labels, .centre = 0.05},
         .rows = {3, 0, 5, 9, -1, -1},
         .scores = {},
         .values = {}};
  c.scores = Normal(6 * labels, 11);
  c.values = Floats(Size(6 * ScoreValues(c.spec)));
  for (size_t i = 0; i < c.values.size(); ++i) {
    c.values[i] = type == ScoreTerm::kSingleLabel  ? static_cast<float>(i % Size(labels))
                  : type == ScoreTerm::kMultiLabel ? static_cast<float>(i % 2)
                                                   : 0.3f * static_cast<float>(i);
  }
  return c;
}

struct Results {
  double loss = 0;
  PreferenceSums reports;
  Floats dscores;
};

Results LossOf(const Case& c) {
  Results out{.loss = 0, .reports = {}, .dscores = Floats(c.scores.size(), 7.0f)};
  const ExpectNoAllocation none;
  ScoreLoss({.spec = c.spec,
             .documents = Length(c.rows),
             .rows = c.rows.data(),
             .scores = c.scores.data(),
             .values = c.values.data(),
             .loss = &out.loss,
             .reports = &out.reports,
             .dscores = out.dscores.data()},
            nullptr);
  return out;
}

// Central differences of the loss in double: with h = 2^-8 the truncation is h^2 f''' / 6 < 3e-6,
// the scores are moved exactly, and their slope is rounded to float32.
void CheckSlopes(ScoreTerm type, int64_t labels) {
  Case c = CaseOf(type, labels);
  for (float& score : c.scores) score = std::round(score * 256) / 256;
  const Floats slopes = LossOf(c).dscores;
  constexpr float kH = 0x1p-8f;
  for (size_t i = 0; i < c.scores.size(); ++i) {
    Case above = c, below = c;
    above.scores[i] += kH;
    below.scores[i] -= kH;
    const double want = (LossOf(above).loss - LossOf(below).loss) / (2 * kH);
    EXPECT_NEAR(slopes[i], want, 5e-6) << static_cast<int>(type) << " " << i;
  }
}

TEST(ScoreLossTest, SlopesAreThoseOfTheLosses) {
  CheckSlopes(ScoreTerm::kBradleyTerry, 1);
  CheckSlopes(ScoreTerm::kSingleLabel, 5);
  CheckSlopes(ScoreTerm::kMultiLabel, 3);
  CheckSlopes(ScoreTerm::kMultiLabel, 1);
  CheckSlopes(ScoreTerm::kRegression, 2);
}

TEST(ScoreLossTest, PairsWithMarginsAndACentre) {
  Case c = CaseOf(ScoreTerm::kBradleyTerry, 1);
  c.scores = {2, 0.5, -1, 1, 9, 9};
  c.values = {0.5, 9, 0, 9, 9, 9};
  const Results got = LossOf(c);
  const double first = std::log1p(std::exp(-1.0)), second = std::log1p(std::exp(2.0));
  EXPECT_NEAR(got.loss, first + second + 0.05 * 2.5 * 2.5, 1e-12);
  EXPECT_EQ(got.reports.rewards_chosen, 1);
  EXPECT_EQ(got.reports.rewards_rejected, 1.5);
  EXPECT_EQ(got.reports.accuracies, 1);
  EXPECT_EQ(got.reports.chosen, 2);
  EXPECT_EQ(got.dscores[4], 0) << "of no pair";
}

TEST(ScoreLossTest, OneLabelOfSeveral) {
  Case c = CaseOf(ScoreTerm::kSingleLabel, 3);
  c.rows = {0, 1};
  c.scores = {0, 0, 0, 1, 3, 2};
  c.values = {2, 1};
  const Results got = LossOf(c);
  const double second = std::log(std::exp(-2.0) + 1 + std::exp(-1.0));
  EXPECT_NEAR(got.loss, std::log(3.0) + second, 1e-12);
  EXPECT_EQ(got.reports.accuracies, 1) << "of equal scores the first counts";
  EXPECT_EQ(got.reports.chosen, 2);
}

TEST(ScoreLossTest, SeveralLabelsAndNumbersAreMeansOverLabels) {
  Case c = CaseOf(ScoreTerm::kMultiLabel, 2);
  c.rows = {0};
  c.scores = {0, 4};
  c.values = {1, 0};
  Results got = LossOf(c);
  EXPECT_NEAR(got.loss, (std::log(2.0) + 4 + std::log1p(std::exp(-4.0))) / 2, 1e-12);
  EXPECT_EQ(got.reports.accuracies, 0);
  c.spec.type = ScoreTerm::kRegression;
  c.values = {1, 1};
  got = LossOf(c);
  EXPECT_NEAR(got.loss, (1.0 + 9.0) / 2, 1e-12);
  EXPECT_EQ(got.reports.rewards_chosen, 2);
  EXPECT_EQ(got.reports.rewards_rejected, 1);
}

// Far from 0 nothing overflows.
TEST(ScoreLossTest, DistantScoresAreFinite) {
  Case c = CaseOf(ScoreTerm::kBradleyTerry, 1);
  c.spec.centre = 0;
  c.rows = {0, 1};
  c.scores = {-9000, 9000};
  c.values = {0, 0};
  Results got = LossOf(c);
  EXPECT_EQ(got.loss, 18000);
  EXPECT_EQ(got.dscores[0], -1);
  c.spec = {.type = ScoreTerm::kSingleLabel, .labels = 2};
  c.rows = {0};
  c.values = {0};
  got = LossOf(c);
  EXPECT_EQ(got.loss, 18000);
}

TEST(ScoreLossTest, SupportsWhatHasASense) {
  EXPECT_TRUE(ScoreLossSupports({.type = ScoreTerm::kBradleyTerry, .labels = 1}));
  EXPECT_FALSE(ScoreLossSupports({.type = ScoreTerm::kBradleyTerry, .labels = 2}));
  EXPECT_FALSE(ScoreLossSupports({.type = ScoreTerm::kSingleLabel, .labels = 1}));
  EXPECT_FALSE(ScoreLossSupports({.type = ScoreTerm::kMultiLabel, .labels = 0}));
}

}  // namespace
}  // namespace score_loss_test

}  // namespace coxswain::kernels
