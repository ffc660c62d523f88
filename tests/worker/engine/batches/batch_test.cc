// What Train and Evaluate refuse.
#include <gtest/gtest.h>

#include <memory>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {
namespace batch_test {
namespace {

class BatchTest : public testing::Test {
 protected:
  void SetUp() override {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.max_documents_per_bin = 3;
    engine_ = std::move(Engine::Prepare(MakePlan(SmallConfig(), options), 0, "")).value();
    bins_ = RandomBins({{17, 9}, {31, 3, 2}}, SmallConfig().vocab_size, 1);
  }

  void ExpectRefused(const TrainStep& step, const std::string& words) {
    const absl::Status status = engine_->Train(step).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find(words), std::string::npos) << status;
    EXPECT_EQ(engine_->applied_updates(), 0);
  }

  std::unique_ptr<Engine> engine_;
  BinBatch bins_;
};

TEST_F(BatchTest, CountsMustAddUp) {
  for (auto alter : {+[](BinBatch* b) { b->bin_ids.pop_back(); },
                     +[](BinBatch* b) { b->documents_per_bin[0] = 1; },
                     +[](BinBatch* b) {
                       b->documents_per_bin = {5, 0};
                     },
                     +[](BinBatch* b) { b->document_lengths[0] += 1; },
                     +[](BinBatch* b) { b->document_lengths[0] += 9, b->document_lengths[1] = 0; },
                     +[](BinBatch* b) { b->token_ids.pop_back(); },
                     +[](BinBatch* b) { b->targets.push_back(0); }}) {
    BinBatch bins = bins_;
    alter(&bins);
    TrainStep step = MakeStep(0, bins);
    ExpectRefused(step, "bins: ");
  }
}

TEST_F(BatchTest, BinsMustFitThePlan) {
  ExpectRefused(MakeStep(0, RandomBins({{41}}, 100, 1)), "41 tokens");
  ExpectRefused(MakeStep(0, RandomBins({{2, 2, 2, 2}}, 100, 1)), "4 documents");
}

TEST_F(BatchTest, IdsMustBeInTheVocabulary) {
  for (int32_t id : {-1, 131}) {
    BinBatch bins = bins_;
    bins.token_ids[5] = id;
    ExpectRefused(MakeStep(0, bins), "token 5 has id " + std::to_string(id));
  }
}

TEST_F(BatchTest, TheLastTokenOfADocumentHasNoTarget) {
  bins_.targets[16] = 1;
  ExpectRefused(MakeStep(0, bins_), "token 16");
}

TEST_F(BatchTest, ScalarsMustBeInRange) {
  for (auto alter :
       {+[](TrainStep* s) { s->loss_denominator = 0; }, +[](TrainStep* s) { s->step = -1; },
        +[](TrainStep* s) { s->learning_rate = -1e-3; },
        +[](TrainStep* s) { s->learning_rate = 0.0 / 0.0; }}) {
    TrainStep step = MakeStep(0, bins_);
    alter(&step);
    ExpectRefused(step, "step ");
  }
}

TEST_F(BatchTest, EvaluationIsPlainNllAndChangesNothing) {
  const EvalStats before = engine_->Evaluate(bins_).value();
  EXPECT_EQ(before.targets, Targets(bins_));
  EXPECT_EQ(before.tokens, static_cast<int64_t>(bins_.token_ids.size()));
  const EvalStats again = engine_->Evaluate(bins_).value();
  EXPECT_EQ(before.loss_sum, again.loss_sum);
  EXPECT_EQ(before.correct_targets, again.correct_targets);
  const StepStats train = engine_->Train(MakeStep(0, bins_)).value();
  EXPECT_EQ(train.loss_sum, before.loss_sum);
  EXPECT_TRUE(train.applied);
  EXPECT_LT(engine_->Evaluate(bins_).value().loss_sum, before.loss_sum);
  EXPECT_EQ(engine_->Evaluate(BinBatch{}).value().loss_sum, 0.0);
  EXPECT_EQ(engine_->Evaluate(BinBatch{}).value().correct_targets, 0);
}

// What is learned by heart is ranked first.
TEST_F(BatchTest, EvaluationCountsTheTargetsThatAreRankedFirst) {
  EXPECT_LT(engine_->Evaluate(bins_).value().correct_targets, Targets(bins_) / 2);
  for (int64_t step = 0; step < 200; ++step) {
    ASSERT_TRUE(engine_->Train(MakeStep(step, bins_)).ok());
  }
  EXPECT_GT(engine_->Evaluate(bins_).value().correct_targets, Targets(bins_) / 2);
}

TEST_F(BatchTest, ANonFiniteStepIsSkippedAndCounted) {
  ASSERT_TRUE(engine_->Train(MakeStep(0, bins_)).value().applied);
  const double before = engine_->Evaluate(bins_).value().loss_sum;
  // A rate whose first update overflows the masters; the next gradient is not finite.
  ASSERT_TRUE(engine_->Train(MakeStep(1, bins_, 1e38)).ok());
  const absl::StatusOr<StepStats> skipped = engine_->Train(MakeStep(2, bins_));
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_FALSE(skipped->applied);
  EXPECT_GT(skipped->nonfinite, 0);
  EXPECT_EQ(engine_->applied_updates(), 2);
  EXPECT_NE(before, 0.0);
}

}  // namespace
}  // namespace batch_test
}  // namespace coxswain::engine
