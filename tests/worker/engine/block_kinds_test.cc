// What holds for a step holds for every kind of block: fusions, recompute levels and ranks change
// no number. Invariants engine-4 and engine-5.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace block_kinds_test {
namespace {

class BlockKindsTest : public testing::TestWithParam<BlockKind> {
 protected:
  static PlanOptions Options(int64_t lora_rank = 0) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.micro_batch_bins = 2;
    options.head_chunk = 24;
    options.lora_rank = lora_rank;
    return options;
  }
  plan::Plan Plan(const PlanOptions& options) const { return MakePlan(GetParam().config, options); }
  BinBatch Bins(int64_t step) const {
    return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {13, 13, 13}}, GetParam().config.vocab_size,
                      100 + static_cast<uint64_t>(step));
  }

  // [rank][step]
  Ranks Train(const plan::Plan& plan, int64_t steps = 3) const {
    Ranks stats(static_cast<size_t>(plan.world_size()));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < steps; ++step) {
        TrainStep train = MakeStep(step, Bins(step));
        train.bins = PartOf(plan, train.bins, rank);
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        stats[static_cast<size_t>(rank)].push_back(*result);
      }
    });
    return stats;
  }

  void ExpectSameBits(const plan::Plan& plan, const Ranks& expected, const std::string& what) {
    const Ranks run = Train(plan);
    ASSERT_EQ(run[0].size(), expected[0].size()) << what;
    for (size_t step = 0; step < run[0].size(); ++step) {
      EXPECT_EQ(run[0][step].global_loss_sum, expected[0][step].global_loss_sum) << what;
      EXPECT_EQ(run[0][step].grad_norm, expected[0][step].grad_norm) << what;
    }
  }
};

// The kernels promise it: kernels/norms/norms.h, kernels/products/gated_linear.h,
// kernels/products/rotated_linear.h.
TEST_P(BlockKindsTest, FusedAndPlainListsGiveTheSameBits) {
  for (const int64_t rank : {0, 3}) {
    plan::Plan plan = Plan(Options(rank));
    const Ranks fused = Train(plan);
    const std::vector<std::string> all = plan.fusions;
    plan.fusions.clear();
    ExpectSameBits(plan, fused, "no fusion");
    for (const std::string& one : all) {
      plan.fusions = {one};
      ExpectSameBits(plan, fused, one);
    }
  }
}

// In the first block neither q, k, v nor what is before them has a gradient; in the others the
// product of q, k and v hands one on and has none itself. Its weights may lie in a slot.
TEST_P(BlockKindsTest, FusedAndPlainListsGiveTheSameBitsOfFrozenLinears) {
  PlanOptions options = Options(3);
  options.lora_targets = {"o_proj"};
  for (const char* quantization : {"", "nf4"}) {
    for (const char* level : {"none", "block"}) {
      options.quantization = quantization;
      options.recompute = level;
      plan::Plan plan = Plan(options);
      const Ranks fused = Train(plan);
      EXPECT_GT(fused[0].back().grad_norm, 0.0);
      plan.fusions.clear();
      ExpectSameBits(plan, fused, level);
    }
  }
}

TEST_P(BlockKindsTest, RecomputeLevelsGiveTheSameBits) {
  for (const int64_t rank : {0, 3}) {
    for (const bool fused : {true, false}) {
      PlanOptions options = Options(rank);
      const Ranks kept = Train(Plan(options));
      for (const auto& [level, every] : std::vector<std::pair<std::string, int64_t>>{
               {"norm_swiglu", 1}, {"expert_out", 1}, {"ffn", 1}, {"block", 1}, {"block", 2}}) {
        options.recompute = level;
        options.recompute_every = every;
        plan::Plan plan = Plan(options);
        if (!fused) plan.fusions.clear();
        ExpectSameBits(plan, kept, level);
      }
    }
  }
}

TEST_P(BlockKindsTest, RecomputeLevelsGiveTheSameBitsWithDora) {
  PlanOptions options = Options(3);
  options.dora = true;
  const Ranks kept = Train(Plan(options));
  for (const char* level : {"ffn", "block"}) {
    options.recompute = level;
    ExpectSameBits(Plan(options), kept, level);
  }
}

TEST_P(BlockKindsTest, RanksEqualOne) {
  for (const int64_t lora_rank : {0, 3}) {
    PlanOptions options = Options(lora_rank);
    const std::vector<StepStats> one = Train(Plan(options), 10)[0];
    options.micro_batch_bins = 1;
    for (const auto& [shard, zero] :
         std::vector<std::pair<int32_t, int32_t>>{{2, 1}, {2, 2}, {2, 3}, {4, 3}}) {
      options.shard = shard;
      options.zero = zero;
      ExpectEqualRuns(Train(Plan(options), 10), one);
    }
    options.shard = 1;
    options.zero = 0;
    options.replicate = 2;
    ExpectEqualRuns(Train(Plan(options), 10), one);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockKindsTest, testing::ValuesIn(BlockKinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace block_kinds_test
}  // namespace coxswain::engine
