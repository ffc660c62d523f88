// Ranks that share weights read what was written back. Invariant engine-5.
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>

#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_load_test {
namespace {

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
  bool dora = false;
};

class ShardedLoadTest : public testing::TestWithParam<Mesh> {};

// What a rank has of other ranks, or in slots, is fetched anew.
TEST_P(ShardedLoadTest, RanksThatShareWeightsComputeTheTrainedBitsAgain) {
  const Mesh& mesh = GetParam();
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  options.dora = mesh.dora;
  options.lora_rank = mesh.dora ? 3 : 0;
  const plan::Plan plan = MakePlan(SmallConfig(), options);
  const support::ScratchFolder checkpoint;
  std::barrier together(plan.world_size());
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    const BinBatch bins = RandomBins({{17}, {31, 3}}, SmallConfig().vocab_size, 3);
    const auto loss = [&] {
      const auto stats = engine.Evaluate(PartOf(plan, bins, rank));
      EXPECT_TRUE(stats.ok()) << stats.status();
      return stats.ok() ? stats->loss_sum : NAN;
    };
    for (int64_t step = 0; step < 2; ++step) {
      TrainStep train = MakeStep(step, PartOf(plan, bins, rank), 1e-2);
      train.loss_denominator = 48;
      ASSERT_TRUE(engine.Train(train).ok());
    }
    const double trained = loss();
    ASSERT_TRUE(engine.Snapshot(2).ok());
    ASSERT_TRUE(engine.SaveShard(checkpoint.path(), 2).ok());
    together.arrive_and_wait();
    if (rank == 0) SealCheckpoint(checkpoint.path());
    together.arrive_and_wait();
    ASSERT_TRUE(engine.Load({.checkpoint_dir = checkpoint.path(), .shake = 1e-2}).ok());
    const double shaken = loss();
    ASSERT_TRUE(engine.Load({.checkpoint_dir = checkpoint.path()}).ok());
    EXPECT_EQ(loss(), trained);
    if (trained != 0) {
      EXPECT_NE(shaken, trained);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, ShardedLoadTest,
                         testing::Values(Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 2, 3},
                                         Mesh{1, 2, 3, true}));

}  // namespace
}  // namespace sharded_load_test
}  // namespace coxswain::engine
