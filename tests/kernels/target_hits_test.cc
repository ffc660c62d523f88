#include "kernels/target_hits.h"

#include <algorithm>
#include <limits>

#include "kernels/cross_entropy.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace {

Floats Hits(const Floats& logits, const std::vector<int32_t>& targets) {
  const auto rows = static_cast<int64_t>(targets.size());
  Floats hits(targets.size(), std::numeric_limits<float>::quiet_NaN());
  const ExpectNoAllocation launches;
  TargetHits({.spec = {.vocab = static_cast<int64_t>(logits.size()) / rows},
              .rows = rows,
              .logits = logits.data(),
              .targets = targets.data(),
              .hits = hits.data()},
             nullptr);
  return hits;
}

TEST(TargetHitsTest, EqualsTheFirstMaximumForEveryTail) {
  for (const int64_t vocab : {1, 2, 7, 15, 16, 17, 97, 1023, 1025, 3001}) {
    const int64_t rows = 40;
    Floats logits = Normal(rows * vocab, 1, 3.0f);
    for (float& z : logits) z = std::round(z);  // many equal maxima
    std::vector<int32_t> targets(Size(rows));
    Floats expected(Size(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = logits.data() + i * vocab;
      const auto first = static_cast<int32_t>(std::max_element(row, row + vocab) - row);
      targets[Size(i)] = i % 2 == 0 ? first : static_cast<int32_t>(i * 31 % vocab);
      expected[Size(i)] = targets[Size(i)] == first ? 1.0f : 0.0f;
    }
    EXPECT_TRUE(SameBits(Hits(logits, targets), expected)) << vocab;
  }
}

TEST(TargetHitsTest, OfEqualMaximaTheFirstCounts) {
  EXPECT_EQ(Hits({1, 3, 3, 0, 1, 3, 3, 0}, {1, 2}), (Floats{1, 0}));
}

TEST(TargetHitsTest, IgnoredRowsAndRowsWithNaNAreNoHits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats logits = {5, 1, nan, 5, nan, 5, nan, 1, 5, 1};
  EXPECT_EQ(Hits(logits, {kIgnoreTarget, 1, 1, 0, 2}), (Floats{0, 0, 0, 0, 0}));
}

TEST(TargetHitsTest, NoRowsDoNothing) { TargetHits({.spec = {.vocab = 8}}, nullptr); }

}  // namespace
}  // namespace coxswain::kernels
