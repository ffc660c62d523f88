#include "controller/planner/layout/layout.h"

#include "common/format.h"
#include "common/plan/extents.h"
#include "controller/planner/memory/attention_workspace.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/model/fp8_linears.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/time/cut_head.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class LayoutTest : public testing::Test {
 protected:
  absl::Status Choose(int64_t global_batch, uint64_t memory = 0) {
    plan_ = {};
    plan_.model = model_;
    plan_.replicate = static_cast<int32_t>(job_.workers);
    plan_.sequence_len = job_.sequence_len;
    plan_.device = job_.device == config::Device::kCuda ? DeviceKind::kCuda : DeviceKind::kCpu;
    plan_.compute_dtype = *job_.compute_dtype;
    EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
    EXPECT_TRUE(ChooseFp8(job_, 90, &plan_).ok());
    return ChooseLayout(job_,
                        {.global_batch_bins = global_batch,
                         .memory_bytes = memory,
                         .single_document_bins = single_document_bins_},
                        &plan_);
  }

  // On a GPU, with matrices so large that making their codes takes time.
  void TakeExpertsInFp8() {
    job_.device = config::Device::kCuda;
    job_.compute_dtype = Precision::kBfloat16;
    job_.fp8.emplace();
    job_.fp8->experts = job_.fp8->keeps_weights = true;
    job_.train.micro_batch_size = 1;
    model_ = SmallExperts();
    model_.hidden_size = 1024;
    model_.head_dim = 256;
    model_.mixture.experts = 64;
    model_.mixture.width = 1024;
  }

  uint64_t Bytes() const { return PlannedMemory(plan_).total(); }

  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
  double single_document_bins_ = 1;
  plan::Plan plan_;
};

TEST_F(LayoutTest, AutoTakesTheShareOfARankUpToTheCpuBound) {
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 2);
  ASSERT_TRUE(Choose(1000).ok());  // 500 bins a rank, 64 fit 4,096 tokens: 8 micro-steps of 63
  EXPECT_EQ(plan_.micro_batch_bins, 63);
  job_.sequence_len = 100000;
  ASSERT_TRUE(Choose(1000).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 1);
}

// What a plan gives up first as memory shrinks. Of few rows codes of experts stay, as making them
// in every micro-step costs more than computing again; of very many rows they go.
TEST_F(LayoutTest, CodesOfExpertsComeBeforeLessRecomputation) {
  TakeExpertsInFp8();
  for (const auto& [sequence_len, kept] :
       {std::pair{int64_t{256}, true}, {int64_t{1} << 20, false}}) {
    job_.sequence_len = sequence_len;
    ASSERT_TRUE(Choose(1, uint64_t{1} << 60).ok());
    EXPECT_TRUE(plan_.fp8.keeps_weights);
    EXPECT_EQ(plan_.recompute, RecomputeLevel::kNone);
    while (plan_.fp8.keeps_weights && plan_.recompute == RecomputeLevel::kNone) {
      const absl::Status status = Choose(1, Bytes() - 1);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(plan_.fp8.keeps_weights, kept) << sequence_len;
    EXPECT_EQ(plan_.recompute == RecomputeLevel::kNone, !kept) << sequence_len;
  }
}

// Though codes that are kept would be faster.
TEST_F(LayoutTest, CodesOfExpertsAreNotKeptAgainstTheJob) {
  TakeExpertsInFp8();
  job_.sequence_len = 256;
  job_.fp8->keeps_weights = false;
  ASSERT_TRUE(Choose(1, uint64_t{1} << 60).ok());
  EXPECT_TRUE(plan_.fp8.experts);
  EXPECT_FALSE(plan_.fp8.keeps_weights);
}

// bfloat16 would leave room for them, and is what the next layout has.
TEST_F(LayoutTest, CodesOfExpertsTakeNoMastersInFloat32) {
  TakeExpertsInFp8();
  job_.adapter = config::Adapter::kNone;
  job_.master_dtype = job_.gradient_dtype = std::nullopt;
  job_.recompute = RecomputeLevel::kNone;
  job_.sequence_len = 256;
  ASSERT_TRUE(Choose(1, uint64_t{1} << 60).ok());
  EXPECT_TRUE(plan_.fp8.keeps_weights);
  while (plan_.fp8.keeps_weights && plan_.master_dtype == Precision::kFloat32) {
    const absl::Status status = Choose(1, Bytes() - 1);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kFloat32);
  EXPECT_FALSE(plan_.fp8.keeps_weights);
}

// Invariant planner-7.
TEST_F(LayoutTest, KeepsWhatTheJobSets) {
  job_.train.micro_batch_size = 7;
  job_.recompute = RecomputeLevel::kBlock;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 7);
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kBlock);
}

TEST_F(LayoutTest, RefusesAMicroStepBeyondAnyMemory) {
  job_.train.micro_batch_size = int64_t{1} << 40;
  const absl::Status status = Choose(4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("train.micro_batch_size is 1099511627776"), std::string::npos);
}

TEST_F(LayoutTest, HeadChunkIsBoundedByBudgetAndRows) {
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 2 * 64);  // all rows of the micro-step
  model_.vocab_size = 151936;
  job_.sequence_len = 4096;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 128);
  model_.vocab_size = 32000;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 512);
  EXPECT_LE(4 * 32000 * plan_.lm_head_chunk_tokens, 64 << 20);
}

TEST_F(LayoutTest, HeadMemoryBoundsTheLogitsOfAChunk) {
  model_.vocab_size = 32000;  // rows of 128,000 bytes
  job_.sequence_len = 4096;
  job_.head_memory_mib = 20;  // 163 rows: two tiles of 64
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 128);
  job_.head_memory_mib = 5;  // 40 rows, 39 with a smaller last chunk, in tiles of 8
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 40);
  job_.head_memory_mib = 1;  // 8 rows
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 8);
  job_.head_memory_mib = 4096;  // more than the device's own bound: all rows
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  model_.vocab_size = 100'000;  // rows of 400,000 bytes: 2 fit
  job_.head_memory_mib = 1;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 2);
  EXPECT_EQ(plan_.buffers, BufferTable(plan_));
}

TEST_F(LayoutTest, HeadMemoryMustHoldARow) {
  model_.vocab_size = 300'000;
  job_.head_memory_mib = 1;
  const absl::Status status = Choose(4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("loss.head_memory_mib is 1, a row of logits over 300000 tokens "
                                   "takes 1.14 MiB; give at least 2"),
            std::string::npos)
      << status;
}

TEST_F(LayoutTest, ACutHeadHoldsNoChunk) {
  model_.vocab_size = 32000;
  job_.sequence_len = 1024;
  job_.loss_head = config::LossHead::kCut;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 2);
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 512);  // a quarter of a micro-step
  EXPECT_EQ(plan_.lm_head_panel_bytes, int64_t{64} << 20);
  const plan::Plan usual = plan_;
  job_.head_memory_mib = 8;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.lm_head_panel_bytes, int64_t{8} << 20);
  EXPECT_EQ(plan_.buffers, BufferTable(plan_));
  job_.head_memory_mib = 1024;  // all of the vocabulary at once is less
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_LT(plan_.lm_head_panel_bytes, int64_t{256} << 20);
  EXPECT_GT(plan_.lm_head_panel_bytes, int64_t{4} * 2048 * 32000);
}

// A smaller bound than a tile of all rows makes micro-steps smaller, as far as it goes.
TEST_F(LayoutTest, ACutHeadKeepsToItsMemory) {
  model_.vocab_size = 32000;
  job_.sequence_len = 1024;
  job_.loss_head = config::LossHead::kCut;
  job_.head_memory_mib = 2;  // of 1,024 rows a tile is 1 MiB, of 2,048 more than 2 with the rest
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 1);
  EXPECT_LE(plan_.lm_head_panel_bytes, int64_t{2} << 20);
  job_.head_memory_mib = 1;
  const absl::Status status = Choose(4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("loss.head_memory_mib is 1, a cut head of 1 x 1024 rows over "
                                   "32000 tokens takes 1.03 MiB; give at least 2"),
            std::string::npos)
      << status;
}

TEST_F(LayoutTest, ACutHeadIsRefusedWhereItCannotBe) {
  job_.loss_head = config::LossHead::kCut;
  job_.lora.target_modules = {"q_proj", "lm_head"};
  EXPECT_NE(Choose(4).ToString().find("loss.head is cut, lora.target_modules adapts lm_head"),
            std::string::npos);
  model_.labels = 3;
  job_.lora.target_modules = {"q_proj"};
  EXPECT_NE(Choose(4).ToString().find("loss.head is cut, the head gives 3 scores"),
            std::string::npos);
}

TEST_F(LayoutTest, LessMemoryMeansSmallerMicroBatchesThenRecomputation) {
  ASSERT_TRUE(Choose(64).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 32);
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kNone);
  uint64_t limit = Bytes() - 1;
  int64_t last = 32;
  bool recomputed = false;
  while (Choose(64, limit).ok()) {
    ASSERT_LE(Bytes(), limit);
    if (plan_.recompute == RecomputeLevel::kBlock) recomputed = true;
    EXPECT_TRUE(recomputed || plan_.micro_batch_bins < last);
    last = plan_.micro_batch_bins;
    limit = Bytes() - 1;
  }
  EXPECT_TRUE(recomputed);
  EXPECT_EQ(plan_.micro_batch_bins, 1);
}

// With less and less memory: all experts with their block, then halves in ranges, and nothing is
// computed again before the smallest range is too large.
TEST_F(LayoutTest, ExpertsAreDequantisedAFewAtATimeWhereMemoryIsShort) {
  model_ = SmallExperts();
  job_.adapter = config::Adapter::kLora;
  job_.quantization = "mxfp4";
  job_.train.micro_batch_size = 1;
  ASSERT_TRUE(Choose(4).ok());
  std::vector<int64_t> taken = {plan_.experts_at_once};
  const RecomputeLevel recompute = plan_.recompute;
  uint64_t last = Bytes();
  while (Choose(4, last - 1).ok() && plan_.recompute == recompute) {
    EXPECT_LT(Bytes(), last);
    last = Bytes();
    taken.push_back(plan_.experts_at_once);
  }
  EXPECT_EQ(taken, (std::vector<int64_t>{0, 6, 3, 1}));
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kBlock);
  // The slots of two blocks are one stack of gate and up, then halves of it.
  const uint64_t expert = 4 * 2 * 64 * 32;
  ASSERT_TRUE(Choose(4).ok());
  const uint64_t all = Bytes();
  ASSERT_TRUE(Choose(4, all - 1).ok());
  EXPECT_EQ(all - Bytes(), 2 * 6 * (expert + expert / 2) - 6 * expert);
}

TEST_F(LayoutTest, WhatDoesNotFitCountsTheSmallestRange) {
  model_ = SmallExperts();
  job_.adapter = config::Adapter::kLora;
  job_.quantization = "mxfp4";
  const absl::Status status = Choose(4, 1000);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(plan_.experts_at_once, 1);
  EXPECT_NE(status.message().find(FormatBytes(Bytes())), std::string::npos) << status;
}

TEST_F(LayoutTest, RecomputeSharesTheActivationsOfLayers) {
  job_.train.micro_batch_size = 2;
  ASSERT_TRUE(Choose(4).ok());
  const uint64_t none = PlannedMemory(plan_).activations;
  job_.recompute = RecomputeLevel::kBlock;
  ASSERT_TRUE(Choose(4).ok());
  const uint64_t block = PlannedMemory(plan_).activations;
  EXPECT_LT(block, none);
  for (const plan::Buffer& buffer : plan_.buffers) {
    const bool shared = buffer.name == "layer2.qkv";
    const bool kept = buffer.name == "layer2.residual_in";
    EXPECT_TRUE(!shared || buffer.alias_of == "layer0.qkv");
    EXPECT_TRUE(!kept || buffer.alias_of.empty());
  }
}

TEST_F(LayoutTest, TooLittleMemoryNamesNeedLimitAndWayOut) {
  job_.adapter = config::Adapter::kNone;
  job_.recompute = RecomputeLevel::kNone;
  job_.train.micro_batch_size = 8;
  job_.sequence_len = 256;
  ASSERT_TRUE(Choose(64).ok());
  const uint64_t need = Bytes(), limit = need / 5 * 3;
  const absl::Status status = Choose(64, limit);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(status.message());
  for (const std::string& part :
       {FormatBytes(need), FormatBytes(limit), std::string("weights "), std::string("gradients "),
        std::string("optimizer "), std::string("activations "), std::string("workspace "),
        std::string("recompute: block"), std::string("sequence_len: 128")}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  const std::string hopeless(Choose(64, 1000).message());
  EXPECT_NE(hopeless.find("No single change would fit"), std::string::npos) << hopeless;
}

TEST_F(LayoutTest, WayOutOfAFullJobIsAnAdapterWhenStatesDominate) {
  job_.adapter = config::Adapter::kNone;
  model_.vocab_size = 100000;
  ASSERT_TRUE(Choose(2).ok());
  const std::string message(Choose(2, Bytes() / 2).message());
  EXPECT_NE(message.find("adapter: lora ("), std::string::npos) << message;
}

// A job of one GPU whose number formats are the planner's.
class CudaLayoutTest : public LayoutTest {
 protected:
  CudaLayoutTest() {
    job_.device = config::Device::kCuda;
    job_.workers = 1;
    job_.compute_dtype = Precision::kBfloat16;
    job_.master_dtype = job_.gradient_dtype = std::nullopt;
    job_.adapter = config::Adapter::kNone;
    job_.sequence_len = 1024;
  }
};

TEST_F(CudaLayoutTest, AutoTakesEqualMicroStepsOfAtMost32768Tokens) {
  ASSERT_TRUE(Choose(40).ok());  // two micro-steps of 20, not 32 and 8
  EXPECT_EQ(plan_.micro_batch_bins, 20);
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kNone);
  EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kFloat32);
  ASSERT_TRUE(Choose(4096).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 32);
}

TEST_F(CudaLayoutTest, HeadChunksAreEqualAndHoldOneAndAQuarterGibOfLogits) {
  model_.vocab_size = 151936;
  ASSERT_TRUE(Choose(32).ok());
  const uint64_t roomy = Bytes();
  ASSERT_TRUE(Choose(32, roomy - 1).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  ASSERT_TRUE(Choose(6, roomy - 1).ok());  // 6,144 rows: not 4,096 and 2,048
  ASSERT_TRUE(Choose(6, Bytes() - 1).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 3072);
  ASSERT_TRUE(Choose(2).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 2048);  // all rows
  model_.vocab_size = 4'000'000;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 1024);
}

TEST_F(CudaLayoutTest, ATrainedHeadHasLargerChunksWhereMemoryIsLeft) {
  model_.vocab_size = 151936;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 16384);
  const plan::Plan roomy = plan_;
  ASSERT_TRUE(Choose(32, Bytes()).ok());
  EXPECT_EQ(plan_, roomy);
  ASSERT_TRUE(Choose(32, Bytes() - 1).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  EXPECT_EQ(plan_.micro_batch_bins, roomy.micro_batch_bins);
  EXPECT_EQ(plan_.recompute, roomy.recompute);
  job_.recompute = RecomputeLevel::kNormSwiglu;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  job_.recompute = std::nullopt;
  job_.adapter = config::Adapter::kLora;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
}

TEST_F(CudaLayoutTest, ATrainedHeadKeepsTheChunksOfItsHeadMemory) {
  model_.vocab_size = 151936;
  job_.head_memory_mib = 64;  // 220 rows
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 192);
}

// The fastest by arithmetic, of smaller chunks and the cut head.
TEST_F(CudaLayoutTest, AutoTakesASmallerHeadWhereNothingElseFits) {
  model_.vocab_size = 151936;
  job_.recompute = RecomputeLevel::kBlock;
  job_.train.micro_batch_size = 8;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 4096);
  const uint64_t least = SmallestLayoutBytes(job_, {.global_batch_bins = 32}, plan_);
  const uint64_t memory = least - (uint64_t{800} << 20);
  ASSERT_TRUE(Choose(32, memory).ok());
  EXPECT_LE(Bytes(), memory);
  EXPECT_TRUE(plan_.lm_head_panel_bytes > 0 || plan_.lm_head_chunk_tokens < 1024);
  const plan::Plan taken = plan_;
  job_.loss_head = config::LossHead::kChunked;
  EXPECT_FALSE(Choose(32, memory).ok());
  for (const int64_t mib : {256, 128, 64}) {
    job_.head_memory_mib = mib;
    ASSERT_TRUE(Choose(32, memory).ok());
    EXPECT_LE(HeadSeconds(taken), HeadSeconds(plan_)) << mib;
  }
  job_.head_memory_mib.reset();
  job_.loss_head = config::LossHead::kCut;
  ASSERT_TRUE(Choose(32, memory).ok());
  EXPECT_LE(HeadSeconds(taken), HeadSeconds(plan_));
}

TEST_F(CudaLayoutTest, ACutHeadTakesItsPanelOnAGpu) {
  model_.vocab_size = 151936;
  job_.loss_head = config::LossHead::kCut;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.lm_head_panel_bytes, int64_t{136} << 20);
  EXPECT_EQ(plan_.lm_head_chunk_tokens, 8192);
  EXPECT_EQ(plan_.micro_batch_bins, 32);
}

// Masters are given up for speed: before products are computed again, after what costs bandwidth
// only.
TEST_F(CudaLayoutTest, Bfloat16MastersComeBeforeProductsAreRecomputed) {
  model_.vocab_size = 400'000;  // the states dominate
  for (const bool fixed : {false, true}) {
    // A micro-step that the job fixes is as large as it gets.
    const int64_t bins = fixed ? 2 : 8;
    job_.train.micro_batch_size = bins;
    job_.recompute = RecomputeLevel::kNormSwiglu;
    ASSERT_TRUE(Choose(8).ok());
    const uint64_t cheap = Bytes();
    job_.recompute = std::nullopt;
    if (!fixed) job_.train.micro_batch_size.reset();
    ASSERT_TRUE(Choose(8, cheap).ok());
    EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
    EXPECT_EQ(plan_.recompute, RecomputeLevel::kNormSwiglu);
    ASSERT_TRUE(Choose(8, cheap - 1).ok());
    EXPECT_EQ(plan_.master_dtype, Precision::kBfloat16);
    EXPECT_EQ(plan_.recompute, RecomputeLevel::kNone);
    EXPECT_EQ(plan_.micro_batch_bins, bins);
  }
}

// From none over norm_swiglu and ffn to block at the largest micro-step that has 8,192 tokens, then
// smaller micro-steps.
TEST_F(CudaLayoutTest, LessMemoryMeansRecomputationThenSmallSteps) {
  job_.master_dtype = job_.gradient_dtype = Precision::kFloat32;
  ASSERT_TRUE(Choose(32).ok());
  uint64_t limit = Bytes() - 1;
  std::vector<RecomputeLevel> levels = {RecomputeLevel::kNone};
  int64_t smallest_before_block = 32;
  int64_t last_step = 32;
  while (Choose(32, limit).ok()) {
    ASSERT_LE(Bytes(), limit);
    if (plan_.recompute != levels.back()) levels.push_back(plan_.recompute);
    if (levels.size() < 4) {
      smallest_before_block = std::min(smallest_before_block, plan_.micro_batch_bins);
    }
    last_step = plan_.micro_batch_bins;
    limit = Bytes() - 1;
  }
  ASSERT_GE(levels.size(), 4u);
  EXPECT_EQ(levels[1], RecomputeLevel::kNormSwiglu);
  EXPECT_EQ(levels[2], RecomputeLevel::kFfn);
  EXPECT_EQ(levels[3], RecomputeLevel::kBlock);
  EXPECT_EQ(smallest_before_block, 8);  // 8,192 tokens
  EXPECT_EQ(last_step, 1);
}

// With experts their output comes before all else that is a product.
TEST_F(CudaLayoutTest, ExpertsComputeTheirOutputAgainBeforeGateAndUp) {
  model_ = SmallExperts();
  job_.adapter = config::Adapter::kLora;
  job_.train.micro_batch_size = 8;
  ASSERT_TRUE(Choose(8).ok());
  std::vector<RecomputeLevel> levels = {plan_.recompute};
  while (Choose(8, Bytes() - 1).ok()) {
    if (plan_.recompute != levels.back()) levels.push_back(plan_.recompute);
  }
  using enum RecomputeLevel;
  EXPECT_EQ(levels, (std::vector<RecomputeLevel>{kNone, kNormSwiglu, kExpertOut, kFfn, kBlock}));
}

TEST_F(CudaLayoutTest, ExpertOutIsRefusedOfAModelWithoutExperts) {
  job_.recompute = RecomputeLevel::kExpertOut;
  const absl::Status status = Choose(8);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.message(),
            "recompute is expert_out, the model has no experts; take norm_swiglu or ffn");
  model_ = SmallExperts();
  ASSERT_TRUE(Choose(8).ok());
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kExpertOut);
}

TEST_F(CudaLayoutTest, BelowEnoughTokensALargerMicroStepIsPreferred) {
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 4);
  ASSERT_TRUE(Choose(4, Bytes() - 1).ok());
  EXPECT_EQ(plan_.micro_batch_bins, 4);
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kNormSwiglu);
}

TEST_F(CudaLayoutTest, Bfloat16MastersWhenFloat32OnesDoNotFit) {
  model_.vocab_size = 400'000;  // the states dominate
  job_.master_dtype = job_.gradient_dtype = Precision::kFloat32;
  job_.train.micro_batch_size = 1;
  job_.recompute = RecomputeLevel::kBlock;
  job_.loss_head = config::LossHead::kChunked;
  ASSERT_TRUE(Choose(4).ok());
  const uint64_t need = Bytes();
  const absl::Status status = Choose(4, need - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("precision.master_weights: bfloat16 with"), std::string::npos)
      << status;
  job_.master_dtype = job_.gradient_dtype = std::nullopt;
  ASSERT_TRUE(Choose(4, need).ok());
  EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
  ASSERT_TRUE(Choose(4, need - 1).ok());
  EXPECT_EQ(plan_.master_dtype, Precision::kBfloat16);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kBfloat16);
  job_.gradient_dtype = Precision::kFloat32;
  ASSERT_TRUE(Choose(4, need - 1).ok());
  EXPECT_EQ(plan_.master_dtype, Precision::kBfloat16);
  EXPECT_EQ(plan_.gradient_dtype, Precision::kFloat32);
}

TEST_F(CudaLayoutTest, AdaptersStayInFloat32) {
  job_.adapter = config::Adapter::kLora;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_FALSE(Choose(4, 1 << 20).ok());
  EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
}

TEST_F(CudaLayoutTest, SegmentsOfBlocks) {
  job_.recompute = RecomputeLevel::kBlock;
  job_.recompute_every = 2;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kBlock);
  EXPECT_EQ(plan_.recompute_every, 2);
  job_.recompute_every = 4;
  EXPECT_NE(Choose(4).message().find("the model has 3 blocks"), std::string::npos);
}

// Snapshots lie in host memory: they are shown, not counted.
TEST_F(CudaLayoutTest, HostMemoryIsNotTheDevices) {
  ASSERT_TRUE(Choose(4).ok());
  const MemoryByClass memory = PlannedMemory(plan_);
  EXPECT_GT(memory.host, 0u);
  EXPECT_EQ(memory.total(), memory.weights + memory.gradients + memory.optimizer +
                                memory.activations + memory.workspace + memory.runtime);
}

// The buffers alone would fit many times.
TEST_F(CudaLayoutTest, CountsWhatCudaTakes) {
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(PlannedMemory(plan_).runtime, plan::kCudaRuntimeBytes);
  EXPECT_TRUE(Choose(4, Bytes()).ok());
  const absl::Status status = Choose(4, plan::kCudaRuntimeBytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find(", CUDA's runtime 553.0 MiB), its limit is 553.0 MiB"),
            std::string::npos)
      << status;
  plan_.device = DeviceKind::kCpu;
  EXPECT_EQ(PlannedMemory(plan_).runtime, 0u);
}

// The world's communicator, and those of replicas and parts where they are others.
TEST_F(CudaLayoutTest, CountsWhatNcclTakesOfAGang) {
  const auto communicators = [this](int32_t replicate, int32_t shard) {
    plan_.replicate = replicate;
    plan_.shard = shard;
    const MemoryByClass memory = PlannedMemory(plan_);
    EXPECT_EQ(memory.total() - memory.communication - memory.runtime,
              memory.weights + memory.gradients + memory.optimizer + memory.activations +
                  memory.workspace);
    if (memory.communication == 0) return uint64_t{0};
    const uint64_t nccl = memory.communication - kCopyStagingBytes;
    EXPECT_EQ(nccl % kNcclBytesPerCommunicator, 0u);
    return nccl / kNcclBytesPerCommunicator;
  };
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(communicators(1, 1), 0u);
  EXPECT_EQ(communicators(1, 2), 1u);
  EXPECT_EQ(communicators(8, 1), 1u);
  EXPECT_EQ(communicators(2, 4), 3u);
  plan_.device = DeviceKind::kCpu;
  EXPECT_EQ(communicators(2, 4), 0u);
}

TEST_F(CudaLayoutTest, RefusesAGangForWhatNcclTakes) {
  job_.workers = 2;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_TRUE(Choose(4, Bytes()).ok());
  const absl::Status status = Choose(4, kNcclBytesPerCommunicator);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find(", communication 934.4 MiB), its limit is 870.4 MiB"),
            std::string::npos)
      << status;
}

// One document a bin of 32,768 tokens, 14 heads x 64: the deterministic backward of cuDNN
// needs 28.1 GiB, measured on one H200 at 4 x 8192 and 1 x 32768 to pay with far more than it
// costs.
class AttentionWorkspaceTest : public CudaLayoutTest {
 protected:
  AttentionWorkspaceTest() {
    job_.sequence_len = 32768;
    model_.num_heads = 14;
    model_.head_dim = 64;
  }
  int64_t Scratch() const {
    for (const plan::Buffer& buffer : plan_.buffers) {
      if (buffer.name == "scratch") return buffer.bytes;
    }
    return 0;
  }
};

constexpr int64_t kMib = int64_t{1} << 20;

TEST_F(AttentionWorkspaceTest, AutoSpendsWhatIsLeftAndNothingElse) {
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, FastestAttentionBytes(plan_));
  EXPECT_EQ(plan_.attention_workspace_bytes, 28795 * kMib);
  EXPECT_EQ(Scratch(), 28796 * kMib);
  const plan::Plan unbounded = plan_;
  const uint64_t enough = Bytes();
  for (const uint64_t more :
       {0, 1, 512 << 20}) {  // what is free differs a little from start to start
    ASSERT_TRUE(Choose(1, enough + more).ok());
    EXPECT_EQ(plan_, unbounded) << more;
  }
  ASSERT_TRUE(Choose(1, enough - 1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);  // what is of no use is not reserved
  EXPECT_LT(Scratch(), 100 * kMib);
  EXPECT_EQ(plan_.recompute, RecomputeLevel::kNone);
  EXPECT_EQ(plan_.master_dtype, Precision::kFloat32);
}

// As the plans of workspace_gib: 4 have always been, so that their bits stay.
TEST_F(AttentionWorkspaceTest, ANumberFixesIt) {
  job_.attention_workspace_gib = 4;
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 4096 * kMib);
  EXPECT_EQ(Scratch(), 4097 * kMib);
  job_.sequence_len = 1024;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 4096 * kMib);
  EXPECT_EQ(Scratch(), 1020 * kMib);
}

TEST_F(AttentionWorkspaceTest, UpToFourGibCountsInTheChoiceOfLayout) {
  job_.sequence_len = 1024;
  ASSERT_TRUE(Choose(32).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 1019 * kMib);
  ASSERT_TRUE(Choose(32, Bytes() - 1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, FastestAttentionBytes(plan_));
  EXPECT_TRUE(plan_.recompute != RecomputeLevel::kNone || plan_.micro_batch_bins < 32);
}

TEST_F(AttentionWorkspaceTest, AJobIsNotRefusedForIt) {
  job_.recompute = RecomputeLevel::kBlock;
  job_.master_dtype = job_.gradient_dtype = Precision::kFloat32;
  job_.sequence_len = 4096;
  job_.train.micro_batch_size = 1;
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, FastestAttentionBytes(plan_));
  ASSERT_TRUE(Choose(1, Bytes() - 1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
  const uint64_t least = Bytes();
  EXPECT_NE(Choose(1, least - 1).message().find("a worker needs " + FormatBytes(least)),
            std::string::npos);
}

TEST_F(AttentionWorkspaceTest, PackedBinsDoNotRunIt) {
  single_document_bins_ = 0.5;
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 28795 * kMib);
  single_document_bins_ = 0.05;
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
  single_document_bins_ = 0.5;  // of micro-steps of four bins, a sixteenth
  job_.sequence_len = 8192;
  ASSERT_TRUE(Choose(4).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
}

TEST_F(AttentionWorkspaceTest, ComesBeforeGatheredBlocks) {
  job_.workers = 2;
  job_.zero = 3;
  plan_.shard = 2;
  const auto choose = [this](uint64_t memory) {
    plan_.replicate = 1;
    plan_.shard = 2;
    return ChooseLayout(job_, {.global_batch_bins = 2, .memory_bytes = memory}, &plan_);
  };
  ASSERT_TRUE(Choose(2).ok());
  ASSERT_TRUE(choose(0).ok());
  EXPECT_EQ(plan_.weight_slots, 3);
  EXPECT_EQ(plan_.attention_workspace_bytes, 28795 * kMib);
  ASSERT_TRUE(choose(Bytes() - 1).ok());
  EXPECT_EQ(plan_.weight_slots, 2);
  EXPECT_EQ(plan_.attention_workspace_bytes, 28795 * kMib);
  ASSERT_TRUE(choose(Bytes() - 1).ok());
  EXPECT_EQ(plan_.weight_slots, 3);
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
}

// Its kernels of warpgroups keep no partial sums; atomics are faster with wide heads.
TEST_F(AttentionWorkspaceTest, AHopperAsksForItWhereAtomicsWin) {
  const auto choose = [this](bool deterministic) {
    ASSERT_TRUE(Choose(1).ok());
    plan_.attention_deterministic = deterministic;
    ASSERT_TRUE(
        ChooseLayout(job_, {.global_batch_bins = 1, .compute_capability = 90}, &plan_).ok());
  };
  choose(true);
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
  choose(false);
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
  model_.head_dim = 128;
  choose(true);
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
  choose(false);
  EXPECT_EQ(plan_.attention_workspace_bytes, FastestAttentionBytes(plan_));
  model_.head_dim = 24;  // for other kernels
  choose(true);
  EXPECT_EQ(plan_.attention_workspace_bytes, FastestAttentionBytes(plan_));
}

// Codes take a byte an element, and four bytes a row of a head for its scale.
TEST_F(AttentionWorkspaceTest, CodesInFp8HaveRoomWhateverIsAskedFor) {
  job_.fp8.emplace().attention = true;
  job_.attention_workspace_gib = 0.0625;
  ASSERT_TRUE(Choose(4).ok());
  const int64_t tokens = plan_.micro_batch_bins * plan_.sequence_len;
  const int64_t least = tokens * 2 * model_.num_kv_heads * 64;  // those of q take none
  EXPECT_GE(Fp8AttentionBytes(plan_), least);
  EXPECT_LE(Fp8AttentionBytes(plan_), least + least / 8);
  EXPECT_EQ(plan_.attention_workspace_bytes, std::max(64 * kMib, Fp8AttentionBytes(plan_)));
  EXPECT_GE(Scratch(), Fp8AttentionBytes(plan_));
  EXPECT_EQ(FastestAttentionBytes(plan_), LeastAttentionBytes(plan_));
}

// Its kernels keep no partial sums.
TEST_F(AttentionWorkspaceTest, Float32AsksForNone) {
  job_.compute_dtype = job_.master_dtype = job_.gradient_dtype = Precision::kFloat32;
  ASSERT_TRUE(Choose(1).ok());
  EXPECT_EQ(plan_.attention_workspace_bytes, 64 * kMib);
}

}  // namespace
}  // namespace coxswain::planner
