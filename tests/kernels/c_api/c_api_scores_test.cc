#include "kernels/c_api/c_api.h"
#include "kernels/loss/score_loss.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace c_api_scores_test {
namespace {

constexpr int64_t kTokens = 5, kWidth = 7, kLabels = 3, kDocuments = 2;
constexpr int32_t kRows[kDocuments] = {4, 1};

TEST(CApiScoresTest, TheHeadGivesTheBitsOfTheOp) {
  const Floats x = Normal(kTokens * kWidth, 1), weight = Normal(kLabels * kWidth, 2),
               d = Normal(kDocuments * kLabels, 3);
  const ScoreHeadSpec spec{.width = kWidth, .labels = kLabels};
  Floats scores(Size(kDocuments * kLabels)), c_scores(scores);
  ScoreHeadForward({.spec = spec,
                    .documents = kDocuments,
                    .rows = kRows,
                    .x = x.data(),
                    .weight = weight.data(),
                    .scores = scores.data()},
                   nullptr);
  coxswain_score_head_forward_args forward{};
  forward.dtype = COXSWAIN_FLOAT32;
  forward.width = kWidth;
  forward.labels = kLabels;
  forward.documents = kDocuments;
  forward.rows = kRows;
  forward.x = x.data();
  forward.weight = weight.data();
  forward.scores = c_scores.data();
  ASSERT_EQ(coxswain_score_head_forward(&forward, nullptr), 0) << coxswain_last_error();
  EXPECT_TRUE(SameBits(c_scores, scores));

  const float scale = 0.5f;
  Floats dx(x.size()), c_dx(x.size()), dw(weight.size(), 1.0f), c_dw(dw);
  ScoreHeadBackward({.spec = spec,
                     .documents = kDocuments,
                     .rows = kRows,
                     .x = x.data(),
                     .weight = weight.data(),
                     .dscores = d.data(),
                     .scale = &scale,
                     .dx = dx.data(),
                     .dweight = dw.data(),
                     .accumulate = true},
                    nullptr);
  coxswain_score_head_backward_args backward{};
  backward.dtype = COXSWAIN_FLOAT32;
  backward.width = kWidth;
  backward.labels = kLabels;
  backward.documents = kDocuments;
  backward.rows = kRows;
  backward.x = x.data();
  backward.weight = weight.data();
  backward.dscores = d.data();
  backward.scale = &scale;
  backward.dx = c_dx.data();
  backward.dweight = c_dw.data();
  backward.accumulate = 1;
  ASSERT_EQ(coxswain_score_head_backward(&backward, nullptr), 0) << coxswain_last_error();
  EXPECT_TRUE(SameBits(c_dx, dx));
  EXPECT_TRUE(SameBits(c_dw, dw));
}

TEST(CApiScoresTest, TheLossGivesTheBitsOfTheOp) {
  const Floats scores = Normal(kDocuments * kLabels, 4), values = {2, 0};
  double loss = 0, c_loss = 0, c_reports[COXSWAIN_PREFERENCE_SUMS] = {};
  PreferenceSums reports;
  Floats d(scores.size()), c_d(scores.size());
  ScoreLoss({.spec = {.type = ScoreTerm::kSingleLabel, .labels = kLabels},
             .documents = kDocuments,
             .rows = kRows,
             .scores = scores.data(),
             .values = values.data(),
             .loss = &loss,
             .reports = &reports,
             .dscores = d.data()},
            nullptr);
  coxswain_score_loss_args args{};
  args.type = COXSWAIN_SCORE_SINGLE_LABEL;
  args.labels = kLabels;
  args.documents = kDocuments;
  args.rows = kRows;
  args.scores = scores.data();
  args.values = values.data();
  args.loss = &c_loss;
  args.reports = c_reports;
  args.dscores = c_d.data();
  ASSERT_EQ(coxswain_score_loss(&args, nullptr), 0) << coxswain_last_error();
  EXPECT_EQ(c_loss, loss);
  EXPECT_EQ(c_reports[5], reports.chosen);
  EXPECT_EQ(reports.chosen, 2);
  EXPECT_TRUE(SameBits(c_d, d));
  args.type = 9;
  EXPECT_NE(coxswain_score_loss(&args, nullptr), 0);
}

}  // namespace
}  // namespace c_api_scores_test
}  // namespace coxswain::kernels
