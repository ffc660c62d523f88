// A step in halves over several ranks: those of the last batch reduce the gradients with it, else
// the update does. Invariants engine-3 and engine-5.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_halves_test {
namespace {

constexpr int64_t kSteps = 10;
constexpr int64_t kWide = 1031;  // ranks exchange rows of the embedding

enum class Way { kTrain, kHalves, kBatches, kOpen };

struct Mesh {
  int32_t replicate, shard, zero;
  int64_t lora_rank, vocab;
};

plan::Plan PlanOf(const Mesh& mesh) {
  model::ModelConfig config = SmallConfig();
  config.vocab_size = mesh.vocab;
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.lora_rank = mesh.lora_rank;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  return MakePlan(config, options);
}

TrainStep StepOf(int64_t step) {
  return MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {13, 13, 13}},
                                   SmallConfig().vocab_size, 100 + static_cast<uint64_t>(step)));
}

// In two batches the first is of rank 0 alone.
StepStats TrainBy(Way way, const plan::Plan& plan, int rank, Engine& engine,
                  const TrainStep& step) {
  TrainStep own = step;
  own.bins = PartOf(plan, step.bins, rank);
  if (way == Way::kTrain) return engine.Train(own).value();
  if (way == Way::kHalves) {
    EXPECT_TRUE(engine.ForwardBackward(own).ok());
    return engine.Update(own.update()).value();
  }
  GradientBatch batch = own;
  batch.last = false;
  batch.bins = Slice(step.bins, 0, rank == 0 ? 1 : 0);
  batch.bins.micro_steps = 1;
  EXPECT_TRUE(engine.ForwardBackward(batch).ok());
  batch.last = way == Way::kBatches;
  batch.bins = PartOf(plan, Slice(step.bins, 1, 4), rank);
  EXPECT_TRUE(engine.ForwardBackward(batch).ok());
  return engine.Update(own.update()).value();
}

Ranks TrainSteps(Way way, const plan::Plan& plan) {
  Ranks stats(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    for (int64_t step = 0; step < kSteps; ++step) {
      stats[static_cast<size_t>(rank)].push_back(TrainBy(way, plan, rank, engine, StepOf(step)));
    }
  });
  return stats;
}

class ShardedHalvesTest : public testing::TestWithParam<Mesh> {};

TEST_P(ShardedHalvesTest, ABatchThatIsTheLastHasTheBitsOfTheStep) {
  const plan::Plan plan = PlanOf(GetParam());
  const Ranks halves = TrainSteps(Way::kHalves, plan), whole = TrainSteps(Way::kTrain, plan);
  for (size_t rank = 0; rank < whole.size(); ++rank) {
    for (size_t step = 0; step < whole[rank].size(); ++step) {
      EXPECT_EQ(halves[rank][step].loss_sum, whole[rank][step].loss_sum) << step;
      EXPECT_EQ(halves[rank][step].global_loss_sum, whole[rank][step].global_loss_sum) << step;
      EXPECT_EQ(halves[rank][step].grad_norm, whole[rank][step].grad_norm) << step;
    }
  }
}

// Updates tell no targets: those of one rank's steps stand in for them.
TEST_P(ShardedHalvesTest, BatchesAreTheStepOfOneRank) {
  const plan::Plan plan = PlanOf(GetParam());
  Mesh alone = GetParam();
  alone.replicate = alone.shard = 1;
  alone.zero = 0;
  const std::vector<StepStats> one = TrainSteps(Way::kTrain, PlanOf(alone))[0];
  for (const Way way : {Way::kBatches, Way::kOpen}) {
    Ranks many = TrainSteps(way, plan);
    for (size_t step = 0; step < one.size(); ++step) many[0][step].targets = one[step].targets;
    ExpectEqualRuns(many, one);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ShardedHalvesTest,
                         testing::Values(Mesh{2, 1, 0, 0, 131}, Mesh{1, 2, 1, 0, kWide},
                                         Mesh{1, 2, 2, 0, 131}, Mesh{1, 2, 3, 3, 131},
                                         Mesh{2, 2, 3, 0, kWide}),
                         [](const testing::TestParamInfo<Mesh>& info) {
                           const Mesh& mesh = info.param;
                           return std::to_string(mesh.replicate) + "x" +
                                  std::to_string(mesh.shard) + "Zero" + std::to_string(mesh.zero) +
                                  (mesh.lora_rank > 0 ? "Lora" : "Full") +
                                  (mesh.vocab == kWide ? "Wide" : "");
                         });

}  // namespace
}  // namespace sharded_halves_test
}  // namespace coxswain::engine
