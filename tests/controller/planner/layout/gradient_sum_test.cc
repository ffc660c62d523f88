#include "controller/planner/layout/gradient_sum.h"

#include <algorithm>
#include <string>

#include "common/plan/gradient_sum.h"
#include "controller/planner/layout/layout.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/model/parameter_groups.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace gradient_sum_test {
namespace {

using plan::GradientSum;

// A job of one GPU with one bin a micro-step: as many terms as bins.
class GradientSumTest : public testing::Test {
 protected:
  GradientSumTest() {
    job_.device = config::Device::kCuda;
    job_.workers = 1;
    job_.compute_dtype = job_.master_dtype = job_.gradient_dtype = Precision::kBfloat16;
    job_.gradient_sum = "auto";
    job_.adapter = config::Adapter::kNone;
    job_.sequence_len = 1024;
    job_.train.micro_batch_size = 1;
    job_.recompute = RecomputeLevel::kBlock;
    job_.loss_head = config::LossHead::kChunked;
    model_.vocab_size = 400'000;  // gradients dominate
  }

  absl::Status Choose(int64_t bins, uint64_t memory = 0) {
    plan_ = {};
    plan_.model = model_;
    plan_.shard = static_cast<int32_t>(job_.workers);
    plan_.sequence_len = job_.sequence_len;
    plan_.device = DeviceKind::kCuda;
    plan_.compute_dtype = *job_.compute_dtype;
    bins_ = bins;
    EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
    return ChooseLayout(job_, {.global_batch_bins = bins, .memory_bytes = memory}, &plan_);
  }
  GradientSum Sum(int64_t bins, uint64_t memory = 0) {
    EXPECT_TRUE(Choose(bins, memory).ok());
    return plan_.gradient_sum;
  }
  uint64_t Bytes() const { return PlannedMemory(plan_).total(); }
  std::string Text() const { return GradientSumText(job_, bins_, plan_); }

  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
  plan::Plan plan_;
  int64_t bins_ = 0;
};

TEST_F(GradientSumTest, UpTo64TermsAreRoundedToNearest) {
  EXPECT_EQ(Sum(64), GradientSum::kNearest);
  EXPECT_EQ(Text(), "nearest, 64 terms in a step, at most 64");
  EXPECT_EQ(Sum(65), GradientSum::kCompensated);
  EXPECT_EQ(Text(), "compensated, 65 terms in a step, more than 64");
  job_.workers = 2;
  EXPECT_EQ(Sum(65), GradientSum::kNearest);  // 33 of the rank with most
  EXPECT_EQ(Sum(130), GradientSum::kCompensated);
}

TEST_F(GradientSumTest, StochasticWhereACompanionDoesNotFit) {
  model_.tie_embeddings = false;
  ASSERT_EQ(Sum(65), GradientSum::kCompensated);
  const uint64_t need = Bytes();
  EXPECT_EQ(Sum(65, need), GradientSum::kCompensated);
  EXPECT_EQ(Sum(65, need - 1), GradientSum::kStochastic);
  EXPECT_LT(Bytes(), need);
  EXPECT_EQ(Text(), "stochastic, 65 terms in a step, more than 64; no memory for a companion");
  EXPECT_EQ(Choose(65, Bytes() - 1).code(), absl::StatusCode::kResourceExhausted);
}

// A companion takes as much as float32 does, so that it is float32 or none where both are open.
TEST_F(GradientSumTest, Float32ComesFirstWhereTheJobLeavesIt) {
  model_.tie_embeddings = false;
  job_.master_dtype = Precision::kBfloat16;
  job_.gradient_dtype = Precision::kFloat32;
  ASSERT_TRUE(Choose(65).ok());
  const uint64_t need = Bytes();
  EXPECT_EQ(Text(), "");
  job_.gradient_dtype = std::nullopt;
  job_.master_dtype = std::nullopt;  // float32 masters do not fit, float32 gradients do
  EXPECT_EQ(Sum(65, need), GradientSum::kNearest);
  EXPECT_EQ(plan_.master_dtype, Precision::kBfloat16);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kFloat32);
  EXPECT_EQ(Sum(64, need), GradientSum::kNearest);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kBfloat16);
  EXPECT_EQ(Sum(65, need - 1), GradientSum::kStochastic);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kBfloat16);
  EXPECT_EQ(Text(),
            "stochastic, 65 terms in a step, more than 64; no memory for float32 or a companion");
}

// Invariant planner-7.
TEST_F(GradientSumTest, KeepsWhatTheJobSets) {
  for (const GradientSum sum :
       {GradientSum::kNearest, GradientSum::kStochastic, GradientSum::kCompensated}) {
    job_.gradient_sum = plan::GradientSumName(sum);
    EXPECT_EQ(Sum(4), sum);
    EXPECT_EQ(Sum(1000), sum);
    EXPECT_EQ(Text(), job_.gradient_sum + " as the job says, 1000 terms in a step");
  }
  EXPECT_EQ(Choose(1000, Bytes() - 1).code(), absl::StatusCode::kResourceExhausted);
}

// Blocks in the slots of ZeRO 2, a tied embedding, adapters: summed in float32.
TEST_F(GradientSumTest, NothingIsChosenWhereNothingIsSummedInBfloat16) {
  job_.workers = 2;
  job_.zero = 2;
  EXPECT_EQ(Sum(1000), GradientSum::kNearest);
  EXPECT_EQ(Text(), "");
  job_.zero.reset();
  job_.adapter = config::Adapter::kLora;
  EXPECT_EQ(Sum(1000), GradientSum::kNearest);
  EXPECT_EQ(Text(), "");
}

// 32 micro-steps of 4 chunks of the head; where memory is left, of fewer and larger ones.
TEST_F(GradientSumTest, LargerChunksOfTheHeadMayMakeItNeedless) {
  model_.tie_embeddings = false;
  model_.vocab_size = 151'936;
  job_.train.micro_batch_size = 16;
  job_.recompute = RecomputeLevel::kNone;
  ASSERT_EQ(Sum(16 * 32), GradientSum::kNearest);
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 16384);
  EXPECT_EQ(plan_.buffers.end(),
            std::find_if(plan_.buffers.begin(), plan_.buffers.end(),
                         [](const auto& row) { return row.name == "gradient_companions"; }));
  const uint64_t roomy = Bytes();
  EXPECT_EQ(Sum(16 * 32, roomy - 1), GradientSum::kCompensated);
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  EXPECT_EQ(Text(), "compensated, 128 terms in a step, more than 64");
}

}  // namespace
}  // namespace gradient_sum_test
}  // namespace coxswain::planner
