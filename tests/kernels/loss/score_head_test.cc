#include "kernels/loss/score_loss.h"

#include <cmath>
#include <vector>

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
}  // namespace coxswain::kernels
