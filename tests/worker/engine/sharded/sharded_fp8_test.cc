// W ranks with products in FP8 compute what one rank computes, at every ZeRO stage.
#include <gtest/gtest.h>

#include <vector>

#include "common/plan/fp8_linears.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_fp8_test {
namespace {

constexpr int64_t kSteps = 4;

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
};

// A micro-step is one bin on any mesh: its scales are the same.
plan::Plan MakeCase(plan::Fp8Recipe recipe, int64_t lora_rank, const Mesh& mesh) {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 144;
  PlanOptions options;
  options.init = "random";
  options.lora_rank = lora_rank;
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  options.fp8.recipe = recipe;
  // Gathered weights have no memory of their own for codes.
  options.fp8.keeps_weights = mesh.zero != 3;
  return MakePlan(config, options);
}

Ranks Train(const plan::Plan& plan) {
  Ranks run(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    for (int64_t step = 0; step < kSteps; ++step) {
      TrainStep train =
          MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {39}},
                                    SmallConfig().vocab_size, 100 + static_cast<uint64_t>(step)));
      train.bins = PartOf(plan, train.bins, rank);
      const auto stats = engine.Train(train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      run[static_cast<size_t>(rank)].push_back(*stats);
    }
  });
  return run;
}

// Sums over ranks round otherwise than sums over micro-steps, 1e-6. From the second step on weights
// differ by as much, and of some elements the code: by 2^-3 of the element at most, which is one of
// 64 terms or more of a sum, of another sign as often.
void ExpectNear(const Ranks& many, const std::vector<StepStats>& one) {
  for (size_t step = 0; step < one.size(); ++step) {
    for (const std::vector<StepStats>& rank : many) {
      ASSERT_EQ(rank.size(), one.size());
      EXPECT_EQ(rank[step].grad_norm, many[0][step].grad_norm);
      EXPECT_EQ(rank[step].global_loss_sum, many[0][step].global_loss_sum);
      EXPECT_TRUE(rank[step].applied);
    }
    const double loss = many[0][step].global_loss_sum / one[step].global_loss_sum;
    EXPECT_NEAR(loss, 1.0, step == 0 ? 1e-6 : 2e-3) << "step " << step;
    EXPECT_NEAR(many[0][step].grad_norm / one[step].grad_norm, 1.0, step == 0 ? 1e-6 : 2e-2)
        << "step " << step;
  }
}

TEST(ShardedFp8Test, RanksComputeWhatOneComputes) {
  for (const plan::Fp8Recipe recipe :
       {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kRowwise, plan::Fp8Recipe::kBlockwise}) {
    for (const int64_t lora_rank : {0, 4}) {
      const Ranks one = Train(MakeCase(recipe, lora_rank, {}));
      for (const Mesh& mesh : {Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 3, 3}}) {
        SCOPED_TRACE(testing::Message()
                     << plan::NameOf(recipe) << " rank " << lora_rank << ", " << mesh.replicate
                     << " x " << mesh.shard << ", ZeRO " << mesh.zero);
        ExpectNear(Train(MakeCase(recipe, lora_rank, mesh)), one[0]);
      }
    }
  }
}

}  // namespace
}  // namespace sharded_fp8_test
}  // namespace coxswain::engine
