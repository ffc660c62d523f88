#include "bench/worker/engine/without.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/worker/engine/step_data.h"
#include "bench/worker/engine/step_plan.h"

namespace coxswain::bench {
namespace {

PlannedRow PlanOf(const std::string& name) {
  for (const Row& row : Rows("cuda")) {
    if (row.name != name) continue;
    auto planned =
        PlanRow(row, testing::TempDir() + "/without_" + name, 3, {.compute_capability = 90});
    EXPECT_TRUE(planned.ok()) << planned.status();
    if (planned.ok()) return *std::move(planned);
  }
  ADD_FAILURE() << "no row " << name;
  return {};
}

TEST(WithoutTest, KnowsEveryPartByItsWord) {
  const auto all = ParseWithout(
      {"packing", "lengths", "chunks", "fusions", "fused_update", "tuning", "graphs", "balance"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->packing && all->lengths && all->chunks && all->fusions && all->fused_update &&
              all->tuning && all->graphs && all->balance);
  const auto none = ParseWithout({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->packing || none->lengths || none->chunks || none->fusions ||
               none->fused_update || none->tuning || none->graphs || none->balance);
  EXPECT_EQ(ParseWithout({"speed"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WithoutTest, PlanWithoutChunksHoldsTheLogitsOfAMicroStep) {
  planner::PlannedJob planned = PlanOf("0.5b_packed_2048_x1").planned;
  const planner::PlannedJob before = planned;
  ASSERT_TRUE(RemoveFromPlan({.chunks = true}, &planned).ok());
  EXPECT_EQ(planned.plan.lm_head_chunk_tokens, 16 * 2048);
  EXPECT_NE(planned.hash, before.hash);
  // bfloat16 logits of the rows beyond the chunk, of a vocabulary of 151,936.
  const uint64_t rows = 16 * 2048 - before.plan.lm_head_chunk_tokens;
  EXPECT_GE(planned.estimate.total_bytes, before.estimate.total_bytes + rows * 151936 * 2);
}

TEST(WithoutTest, PlanWithoutFusionsHasNone) {
  planner::PlannedJob planned = PlanOf("0.5b_packed_2048_x1").planned;
  ASSERT_FALSE(planned.plan.fusions.empty());
  ASSERT_TRUE(RemoveFromPlan({.fusions = true}, &planned).ok());
  EXPECT_TRUE(planned.plan.fusions.empty());
}

TEST(WithoutTest, PlanWithoutWhatIsOfTheStepAloneStays) {
  planner::PlannedJob planned = PlanOf("0.5b_packed_2048_x1").planned;
  const std::string hash = planned.hash;
  const Without step = {.packing = true, .fused_update = true, .tuning = true, .graphs = true};
  ASSERT_TRUE(RemoveFromPlan(step, &planned).ok());
  EXPECT_EQ(planned.hash, hash);
}

// Of 8 in 128 experts, whose threshold is 1.534: normal(0, f) exceeds it in a fourth of the draws.
TEST(WithoutTest, WeightsOfTheFullestExpertAreAsWideAsItsShareAsks) {
  const double width = WidthOfFullest(128, 8, 0.25);
  EXPECT_NEAR(width, 1.5341205 / 0.6744898, 1e-6);
  EXPECT_NEAR(WidthOfFullest(32, 4, 0.125), 1.0, 1e-12);
}

TEST(WithoutTest, UnpackedStepHasTheSameDocumentsInABinEach) {
  const PlannedRow row = PlanOf("0.5b_packed_2048_x1");
  const engine::TrainStep packed = MakeStep(*row.recipe, *row.data.train, 0);
  engine::TrainStep step = packed;
  Unpack(&step);
  const size_t documents = packed.bins.document_lengths.size();
  ASSERT_GT(documents, packed.bins.bin_ids.size());
  EXPECT_EQ(step.bins.documents_per_bin, std::vector<int32_t>(documents, 1));
  EXPECT_EQ(step.bins.bin_ids.size(), documents);
  EXPECT_EQ(step.bins.bin_ids.back(), static_cast<int64_t>(documents) - 1);
  EXPECT_EQ(step.bins.token_ids, packed.bins.token_ids);
  EXPECT_EQ(step.loss_denominator, packed.loss_denominator);
}

TEST(WithoutTest, PaddedStepHasRowsOfTheLongestOfSixteenDocumentsAndTheSameTargets) {
  const PlannedRow row = PlanOf("0.5b_packed_2048_x1");
  const engine::TrainStep packed = MakeStep(*row.recipe, *row.data.train, 0);
  engine::TrainStep step = packed;
  PadLengths(row.planned.plan, &step);
  const std::vector<int32_t>& lengths = packed.bins.document_lengths;
  ASSERT_EQ(step.bins.document_lengths.size(), lengths.size());
  ASSERT_EQ(step.bins.targets.size(), step.bins.token_ids.size());
  size_t from = 0, to = 0;
  for (size_t d = 0; d < lengths.size(); ++d) {
    const auto first = lengths.begin() + static_cast<int64_t>(d / kCollated * kCollated);
    const auto last =
        lengths.end() - first > int64_t{kCollated} ? first + kCollated : lengths.end();
    const int32_t longest = step.bins.document_lengths[d];
    ASSERT_EQ(longest, *std::max_element(first, last)) << d;
    for (int32_t t = 0; t < longest; ++t, ++to) {
      const bool real = t < lengths[d];
      ASSERT_EQ(step.bins.token_ids[to], real ? packed.bins.token_ids[from] : 0) << d << " " << t;
      ASSERT_EQ(step.bins.targets[to], real ? packed.bins.targets[from] : 0) << d << " " << t;
      from += real ? 1 : 0;
    }
  }
  EXPECT_EQ(from, packed.bins.token_ids.size());
  EXPECT_GT(to, from);
  size_t document = 0;
  for (const int32_t count : step.bins.documents_per_bin) {
    int64_t tokens = 0;
    for (int32_t i = 0; i < count; ++i) tokens += step.bins.document_lengths[document++];
    EXPECT_LE(tokens, row.planned.plan.sequence_len);
    EXPECT_LE(count, row.planned.plan.max_documents_per_bin);
  }
  EXPECT_EQ(document, lengths.size());
  EXPECT_EQ(step.loss_denominator, packed.loss_denominator);
}

}  // namespace
}  // namespace coxswain::bench
