// What runs between the halves of a step leaves the step as it is. Invariant engine-4.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/files/read_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace between_halves_test {
namespace {

constexpr int64_t kSteps = 3;

PlanOptions Options() {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  if (TestDevice() == "cuda") options.compute_dtype = "bfloat16";
  return options;
}

// Adapters with dropout under a policy loss.
plan::Plan PolicyPlan() {
  PlanOptions options = Options();
  options.lora_rank = 4;
  options.dropout = 0.2;
  model::ModelConfig config = SmallConfig();
  if (TestDevice() == "cuda") config.head_dim = 16;
  plan::Plan plan = MakePlan(config, options);
  plan.policy_loss = {.objective = "clip", .epsilon_low = 0.2, .epsilon_high = 0.2};
  Finish(&plan);
  return WithGeneration(plan, 2, 20);
}

// A mixture whose corrections follow the use of experts in the batches of a step alone.
plan::Plan MixturePlan() {
  for (const BlockKind& kind : BlockKinds()) {
    if (kind.name != "GroupedExperts") continue;
    model::ModelConfig config = kind.config;
    config.mixture.width = 24;  // whole vectors of bfloat16
    plan::Plan plan = MakePlan(config, Options());
    plan.router_losses = {.balance = 0.01, .z = 0.001};
    plan.router_bias_rate = 0.03125;
    Finish(&plan);
    return WithGeneration(plan, 2, 20);
  }
  return {};
}

// The content of the shard of `steps` finished steps.
std::vector<std::string> Saved(Engine& engine, int64_t steps) {
  const support::ScratchFolder folder;
  std::vector<std::string> content;
  const auto files = engine.SaveShard(folder.path(), steps);
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return content;
  for (const ShardFile& file : *files) {
    content.push_back(*ReadFile(folder.path() + "/" + file.name, 1 << 30));
  }
  return content;
}

class BetweenHalvesTest : public testing::TestWithParam<bool> {
 protected:
  BetweenHalvesTest() : policy_(GetParam()), plan_(policy_ ? PolicyPlan() : MixturePlan()) {
    auto prepared = Engine::Prepare(plan_, 0, "");
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    engine_ = std::move(*prepared);
  }

  TrainStep StepOf(int64_t step) const {
    TrainStep train =
        MakeStep(step, RandomBins({{17, 9, 1}, {31, 3}, {8}, {40}}, plan_.model.vocab_size,
                                  10 + static_cast<uint64_t>(step)));
    for (int64_t i = 0; policy_ && i < Targets(train.bins); ++i) {
      train.bins.advantages.push_back(i % 3 == 0 ? -0.5f : 1.0f);
      train.bins.old_log_probs.push_back(-5.0f);
    }
    return train;
  }

  // The bins [first, first + 2) of a step of four.
  GradientBatch BatchOf(int64_t step, size_t first) const {
    const TrainStep whole = StepOf(step);
    GradientBatch batch = whole;
    batch.bins = Slice(whole.bins, first, 2);
    batch.last = first > 0;
    if (!policy_) return batch;
    const auto begin = static_cast<size_t>(first > 0 ? Targets(Slice(whole.bins, 0, first)) : 0);
    const auto count = static_cast<size_t>(Targets(batch.bins));
    for (auto member : {&BinBatch::advantages, &BinBatch::old_log_probs}) {
      const auto from = (whole.bins.*member).begin() + static_cast<ptrdiff_t>(begin);
      (batch.bins.*member).assign(from, from + static_cast<ptrdiff_t>(count));
    }
    return batch;
  }

  // Everything that may run between; answers go on in the next call.
  void DoOtherThings(int64_t step, bool first) {
    const BinBatch other = RandomBins({{5, 30}, {21}}, plan_.model.vocab_size, 77);
    if (policy_) {
      EXPECT_TRUE(engine_->LogProbs(other, /*without_adapters=*/false).ok());
    } else {
      EXPECT_TRUE(engine_->Evaluate(other).ok());
    }
    GenerateChunk chunk{.tokens = 4, .sampling = {.temperature = 1, .seed = 3}};
    if (first) chunk.prompts = {{5, 6, 7}, {9}};
    const auto answers = engine_->Generate(chunk);
    EXPECT_TRUE(answers.ok()) << answers.status();
    EXPECT_TRUE(engine_->Snapshot(step).ok());
    saved_.push_back(Saved(*engine_, step));
  }

  const bool policy_;
  const plan::Plan plan_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::vector<std::string>> saved_;
};

TEST_P(BetweenHalvesTest, AnythingElseLeavesTheBitsOfTheStep) {
  const auto whole = Engine::Prepare(plan_, 0, "");
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (int64_t step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    ASSERT_TRUE((*whole)->Snapshot(step).ok());
    const std::vector<std::string> before = Saved(**whole, step);
    const auto wanted = (*whole)->Train(StepOf(step));
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    for (const size_t first : {0, 2}) {
      const auto batch = engine_->ForwardBackward(BatchOf(step, first));
      ASSERT_TRUE(batch.ok()) << batch.status();
      DoOtherThings(step, first == 0);
    }
    const auto stats = engine_->Update({step, StepOf(step).learning_rate});
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_GT(stats->grad_norm, 0);
    EXPECT_EQ(stats->grad_norm, wanted->grad_norm);
    EXPECT_NEAR(stats->loss_sum, wanted->loss_sum, 1e-15 * std::abs(wanted->loss_sum));
    EXPECT_EQ(stats->experts.load_ratio, wanted->experts.load_ratio);
    EXPECT_EQ(saved_, std::vector(2, before));  // the state that both halves begin with
    saved_.clear();
  }
  ASSERT_TRUE(engine_->Snapshot(kSteps).ok());
  ASSERT_TRUE((*whole)->Snapshot(kSteps).ok());
  EXPECT_EQ(Saved(*engine_, kSteps), Saved(**whole, kSteps));
}

INSTANTIATE_TEST_SUITE_P(Plans, BetweenHalvesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "PolicyLoss" : "Mixture"; });

}  // namespace
}  // namespace between_halves_test
}  // namespace coxswain::engine
