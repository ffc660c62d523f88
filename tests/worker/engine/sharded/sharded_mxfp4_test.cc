// Ranks that share experts in MXFP4 train with the bits of ranks that share what they stand for.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_mxfp4_test {
namespace {

class ShardedMxfp4Test : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = support::GoldenFolder(GetParam());
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    plan_ = LoadGoldenCase(GetParam()).plan;
    plan_.sequence_len = 40;
  }

  static std::vector<StepStats> Train(const plan::Plan& plan) {
    std::vector<StepStats> all;
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 4; ++step) {
        const BinBatch bins = RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}},
                                         plan.model.vocab_size, 100 + static_cast<uint64_t>(step));
        TrainStep train = MakeStep(step, bins);
        train.bins = PartOf(plan, train.bins, rank);
        const auto stats = engine.Train(train);
        ASSERT_TRUE(stats.ok()) << stats.status();
        if (rank == 0) all.push_back(*stats);
      }
    });
    return all;
  }

  static void ExpectBitsOfTheBaseDequantised(const plan::Plan& plan) {
    ASSERT_EQ(plan.quantization, Quantization::kMxfp4);
    plan::Plan plain = plan;
    plain.quantization = Quantization::kNone;
    Finish(&plain);
    const std::vector<StepStats> one = Train(plan), other = Train(plain);
    ASSERT_EQ(one.size(), 4u);
    ASSERT_EQ(other.size(), 4u);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].global_loss_sum, other[i].global_loss_sum) << "step " << i;
      EXPECT_EQ(one[i].grad_norm, other[i].grad_norm) << "step " << i;
      EXPECT_GT(one[i].grad_norm, 0) << "step " << i;
    }
  }

  plan::Plan plan_;
};

TEST_P(ShardedMxfp4Test, TrainsWithTheBitsOfTheBaseDequantised) {
  for (const auto& [shard, zero] : {std::pair{2, 1}, {2, 2}, {2, 3}, {3, 3}}) {
    plan_.shard = shard;
    plan_.zero = zero;
    Finish(&plan_);
    ExpectBitsOfTheBaseDequantised(plan_);
    ASSERT_FALSE(HasFailure()) << shard << " ranks, ZeRO " << zero;
  }
}

// Magnitudes begin as norms of whole blocks, which ZeRO 3 loads for once.
TEST_P(ShardedMxfp4Test, DoraBeginsAtTheSameNorms) {
  PlanOptions options;
  options.model_path = plan_.model_path;
  options.lora_rank = 3;
  options.lora_targets = {"q_proj", "v_proj"};
  options.dora = true;
  options.sequence_len = 40;
  options.shard = 2;
  options.zero = 3;
  ExpectBitsOfTheBaseDequantised(MakePlan(options));
}

INSTANTIATE_TEST_SUITE_P(Cases, ShardedMxfp4Test,
                         testing::Values("moe/gpt_oss_mxfp4_attn_lora",
                                         "moe/gpt_oss_mxfp4_expert_lora"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("moe/").size());
                         });

}  // namespace
}  // namespace sharded_mxfp4_test
}  // namespace coxswain::engine
