// W ranks compute what one rank computes. Invariant engine-5.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/worker/comm/in_process_rendezvous.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "worker/comm/collectives.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace parallel_test {
namespace {

constexpr int kSteps = 20;

PlanOptions Options(int32_t replicate, int64_t lora_rank) {
  PlanOptions options;
  options.init = "random";
  options.replicate = replicate;
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.lora_rank = lora_rank;
  return options;
}

std::vector<BinBatch> Batches() {
  std::vector<BinBatch> batches;
  for (uint64_t step = 0; step < kSteps; ++step) {
    batches.push_back(RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {13, 13, 13}},
                                 SmallConfig().vocab_size, 100 + step));
  }
  return batches;
}

// The bins of each step that a rank gets.
struct Share {
  size_t first = 0, count = 0;
};

Ranks TrainAll(int64_t lora_rank, const std::vector<Share>& shares) {
  const int32_t world = static_cast<int32_t>(shares.size());
  const std::vector<BinBatch> batches = Batches();
  Ranks stats(shares.size());
  WithEngines(MakePlan(SmallConfig(), Options(world, lora_rank)), "",
              [&](int rank, Engine& engine) {
                for (int64_t step = 0; step < kSteps; ++step) {
                  TrainStep train = MakeStep(step, batches[static_cast<size_t>(step)]);
                  train.bins = Slice(train.bins, shares[rank].first, shares[rank].count);
                  const absl::StatusOr<StepStats> result = engine.Train(train);
                  ASSERT_TRUE(result.ok()) << result.status();
                  stats[rank].push_back(*result);
                }
              });
  for (const std::vector<StepStats>& rank : stats) {
    EXPECT_EQ(rank.size(), static_cast<size_t>(kSteps));
  }
  return stats;
}

TEST(ParallelTest, TwoRanksEqualOne) {
  ExpectEqualRuns(TrainAll(0, {{0, 3}, {3, 2}}), TrainAll(0, {{0, 5}})[0]);
}

TEST(ParallelTest, TwoRanksEqualOneWithAdapter) {
  ExpectEqualRuns(TrainAll(4, {{0, 2}, {2, 3}}), TrainAll(4, {{0, 5}})[0]);
}

TEST(ParallelTest, ARankMayHaveNoBins) {
  const Ranks stats = TrainAll(0, {{0, 5}, {5, 0}});
  ExpectEqualRuns(stats, TrainAll(0, {{0, 5}})[0]);
  EXPECT_EQ(stats[1][0].tokens, 0);
  EXPECT_EQ(stats[1][0].loss_sum, 0.0);
}

TEST(ParallelTest, TrainWithoutGroupIsRefused) {
  auto engine = Engine::Prepare(MakePlan(SmallConfig(), Options(2, 0)), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const absl::Status status = (*engine)->Train(MakeStep(0, Batches()[0])).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST(ParallelTest, AbortWakesAWaitingRank) {
  const plan::Plan plan = MakePlan(SmallConfig(), Options(2, 0));
  comm::InProcessRendezvous rendezvous;
  std::vector<std::unique_ptr<Engine>> engines(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      engines[rank] = std::move(Engine::Prepare(plan, rank, "")).value();
      comm::GroupConfig config;
      config.rank = rank;
      config.world_size = 2;
      auto group = comm::Collectives::Form(config, &rendezvous);
      ASSERT_TRUE(group.ok()) << group.status();
      ASSERT_TRUE(engines[rank]->Connect(std::move(*group)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  std::thread waiting([&] { status = engines[0]->Train(MakeStep(0, Batches()[0])).status(); });
  engines[0]->Abort();
  waiting.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

}  // namespace
}  // namespace parallel_test
}  // namespace coxswain::engine
