#include "tests/worker/engine/support/test_ranks.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "tests/worker/comm/in_process_rendezvous.h"
#include "tests/worker/engine/support/test_batch.h"
#include "worker/comm/collectives.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace {

absl::StatusOr<std::unique_ptr<comm::Collectives>> Form(const plan::Plan& plan, int rank,
                                                        comm::Rendezvous* rendezvous) {
  comm::GroupConfig config;
  config.rank = rank;
  config.world_size = plan.world_size();
  config.shard = plan.shard;
  return comm::Collectives::Form(config, rendezvous);
}

void Connect(const plan::Plan& plan, int rank, comm::Rendezvous* rendezvous, Engine& engine) {
  auto group = Form(plan, rank, rendezvous);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::Status status = engine.Connect(std::move(*group));
  ASSERT_TRUE(status.ok()) << status;
}

void Connect(comm::Rendezvous* rendezvous, State& state) {
  auto group = Form(state.plan, state.rank, rendezvous);
  ASSERT_TRUE(group.ok()) << group.status();
  state.group = std::move(*group);
  state.exchange.Connect(state.group.get());
}

}  // namespace

void WithEngines(const plan::Plan& plan, const std::string& checkpoint,
                 const std::function<void(int rank, Engine& engine)>& body) {
  const auto world = static_cast<size_t>(plan.world_size());
  comm::InProcessRendezvous rendezvous;
  std::vector<std::unique_ptr<Engine>> engines(world);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      auto engine = Engine::Prepare(plan, static_cast<int>(rank), checkpoint);
      ASSERT_TRUE(engine.ok()) << engine.status();
      engines[rank] = std::move(*engine);
      if (world > 1) Connect(plan, static_cast<int>(rank), &rendezvous, *engines[rank]);
      if (!testing::Test::HasFatalFailure()) body(static_cast<int>(rank), *engines[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void WithStates(const plan::Plan& plan, const std::function<void(State& state)>& body) {
  const auto world = static_cast<size_t>(plan.world_size());
  comm::InProcessRendezvous rendezvous;
  std::vector<std::unique_ptr<State>> states(world);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      std::string doing;
      auto state = MakeState(plan, static_cast<int>(rank), "", &doing);
      ASSERT_TRUE(state.ok()) << state.status();
      states[rank] = std::move(*state);
      if (world > 1) Connect(&rendezvous, *states[rank]);
      if (!testing::Test::HasFatalFailure()) body(*states[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

BinBatch PartOf(const plan::Plan& plan, const BinBatch& bins, int rank) {
  const auto world = static_cast<size_t>(plan.world_size()), count = bins.bin_ids.size();
  const size_t begin = count * static_cast<size_t>(rank) / world;
  const size_t end = count * (static_cast<size_t>(rank) + 1) / world;
  BinBatch part = Slice(bins, begin, end - begin);
  const auto most = static_cast<int64_t>((count + world - 1) / world);
  part.micro_steps = (most + plan.micro_batch_bins - 1) / plan.micro_batch_bins;
  return part;
}

void ExpectEqualRuns(const Ranks& many, const std::vector<StepStats>& one) {
  for (size_t step = 0; step < one.size(); ++step) {
    double loss_sum = 0;
    int64_t targets = 0;
    for (const std::vector<StepStats>& rank : many) {
      ASSERT_EQ(rank.size(), one.size());
      EXPECT_EQ(rank[step].grad_norm, many[0][step].grad_norm);
      EXPECT_EQ(rank[step].global_loss_sum, many[0][step].global_loss_sum);
      EXPECT_EQ(rank[step].applied, one[step].applied);
      loss_sum += rank[step].loss_sum;
      targets += rank[step].targets;
    }
    EXPECT_EQ(targets, one[step].targets);
    EXPECT_NEAR(loss_sum / many[0][step].global_loss_sum, 1.0, 1e-12);
    const double loss = many[0][step].global_loss_sum / one[step].global_loss_sum;
    const double norm = many[0][step].grad_norm / one[step].grad_norm;
    EXPECT_NEAR(loss, 1.0, step == 0 ? 1e-6 : 2e-6) << "step " << step;
    // AdamW moves an element whose gradient is rounding alone by the whole rate, either way:
    // kernels of other vector widths leave the norms of later steps up to 1.2e-4 apart.
    EXPECT_NEAR(norm, 1.0, step == 0 ? 1e-6 : 3e-4) << "step " << step;
  }
}

}  // namespace coxswain::engine
