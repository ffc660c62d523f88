// The use of experts and the corrections that move with it are of all ranks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/plan/routers.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace sharded_experts_test {
namespace {

constexpr int64_t kSteps = 2;

plan::Plan GroupedPlan(int32_t replicate, int32_t shard, int32_t zero) {
  model::ModelConfig config;
  for (BlockKind& kind : BlockKinds()) {
    if (kind.name == "GroupedExperts") config = kind.config;
  }
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.head_chunk = 24;
  options.replicate = replicate;
  options.shard = shard;
  options.zero = zero;
  plan::Plan plan = MakePlan(config, options);
  plan.router_losses = {.balance = 0.01, .z = 0.001, .by_micro_batch = false};
  plan.router_bias_rate = 0.03125;
  Finish(&plan);
  return plan;
}

struct RankRun {
  std::vector<ExpertUse> uses;     // by step
  std::vector<float> corrections;  // after them, of all routers
};

std::vector<RankRun> RunRanks(const plan::Plan& plan) {
  std::vector<RankRun> runs(static_cast<size_t>(plan.world_size()));
  WithStates(plan, [&](State& state) {
    RankRun& run = runs[static_cast<size_t>(state.rank)];
    for (int64_t step = 0; step < kSteps; ++step) {
      TrainStep train =
          MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}}, plan.model.vocab_size, 7));
      train.bins = PartOf(plan, train.bins, state.rank);
      const absl::StatusOr<StepStats> stats = RunTrainStep(state, train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      run.uses.push_back(stats->experts);
    }
    const auto experts = static_cast<int64_t>(plan::RoutersOf(plan).size()) * 8;
    run.corrections =
        ReadFloats(state.buffers.router_corrections, kernels::DType::kFloat32, experts);
  });
  return runs;
}

// Three bins: one rank has two, the other one. Counts are exact, means differ by rounding.
TEST(ShardedExpertsTest, RanksTellAndMoveWhatOneDoes) {
  const RankRun one = RunRanks(GroupedPlan(1, 1, 0)).front();
  ASSERT_EQ(one.uses.size(), static_cast<size_t>(kSteps));
  for (const plan::Plan& plan :
       {GroupedPlan(2, 1, 0), GroupedPlan(1, 2, 1), GroupedPlan(1, 2, 3)}) {
    const std::vector<RankRun> ranks = RunRanks(plan);
    for (const RankRun& rank : ranks) {
      ASSERT_EQ(rank.uses.size(), one.uses.size());
      EXPECT_EQ(rank.corrections, one.corrections) << "zero " << plan.zero;
      for (size_t step = 0; step < one.uses.size(); ++step) {
        EXPECT_EQ(rank.uses[step].load_ratio, one.uses[step].load_ratio) << step;
        EXPECT_EQ(rank.uses[step].worst_load_ratio, one.uses[step].worst_load_ratio) << step;
        EXPECT_EQ(rank.uses[step].unused_experts, one.uses[step].unused_experts) << step;
        EXPECT_NEAR(rank.uses[step].router_entropy, one.uses[step].router_entropy, 1e-5) << step;
        EXPECT_NEAR(*rank.uses[step].balance_loss, *one.uses[step].balance_loss, 1e-4) << step;
        EXPECT_NEAR(*rank.uses[step].z_loss, *one.uses[step].z_loss, 1e-4) << step;
        EXPECT_EQ(rank.uses[step].router_entropy, ranks[0].uses[step].router_entropy) << step;
      }
    }
  }
}

// Adapters of routers are cut and reduced like those of linears.
TEST(ShardedExpertsTest, RanksTrainAdaptersOfRoutersAsOneDoes) {
  const auto train = [](int32_t shard, int32_t zero) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.head_chunk = 24;
    options.lora_rank = 3;
    options.lora_targets = {"o_proj"};
    options.lora_parameters = {"gate.weight"};
    options.shard = shard;
    options.zero = zero;
    const plan::Plan plan = MakePlan(GroupedPlan(1, 1, 0).model, options);
    Ranks stats(static_cast<size_t>(plan.world_size()));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 4; ++step) {
        TrainStep train = MakeStep(
            step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {13, 13}}, plan.model.vocab_size, 7));
        train.bins = PartOf(plan, train.bins, rank);
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        stats[static_cast<size_t>(rank)].push_back(*result);
      }
    });
    return stats;
  };
  const std::vector<StepStats> one = train(1, 0).front();
  ASSERT_EQ(one.size(), 4u);
  ExpectEqualRuns(train(2, 1), one);
  ExpectEqualRuns(train(2, 3), one);
}

}  // namespace
}  // namespace sharded_experts_test
}  // namespace coxswain::engine
