#include "kernels/loss/cross_entropy.h"

#include <limits>

#include "tests/kernels/loss/target_hits_cases.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
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
}  // namespace coxswain::kernels
