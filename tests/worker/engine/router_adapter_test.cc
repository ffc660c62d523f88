// Adapters of routers. Recompute levels change no number of theirs, and they train alone: the
// gradient reaches them through the weights of the experts. Invariant engine-4.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace router_adapter_test {
namespace {

class RouterAdapterTest : public testing::TestWithParam<BlockKind> {
 protected:
  // Of routers alone where `targets` is empty.
  static PlanOptions Options(const std::vector<std::string>& targets) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.micro_batch_bins = 2;
    options.head_chunk = 24;
    options.lora_rank = 3;
    options.lora_targets = targets;
    options.lora_parameters = {GetParam().name == "SinksAndBiases" ? "router.weight"
                                                                   : "gate.weight"};
    return options;
  }
  static std::unique_ptr<State> Prepared(const PlanOptions& options) {
    plan::Plan plan = MakePlan(GetParam().config, options);
    plan.router_losses = {.balance = 0.02, .z = 0.001, .by_micro_batch = false};
    Finish(&plan);
    std::string doing;
    auto state = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? std::move(*state) : nullptr;
  }
  static BinBatch Bins() {
    return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}}, GetParam().config.vocab_size, 7);
  }
  // Loss and norm of six steps of one batch.
  static std::vector<double> Trained(const PlanOptions& options) {
    std::vector<double> numbers;
    const std::unique_ptr<State> state = Prepared(options);
    for (int64_t step = 0; state != nullptr && step < 6; ++step) {
      const auto stats = RunTrainStep(*state, MakeStep(step, Bins(), 1e-2));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (!stats.ok()) return {};
      numbers.insert(numbers.end(), {stats->global_loss_sum, stats->grad_norm});
    }
    return numbers;
  }
};

std::vector<BlockKind> KindsWithRouters() {
  std::vector<BlockKind> kinds;
  for (BlockKind& kind : BlockKinds()) {
    if (kind.config.mixture.experts > 0) kinds.push_back(std::move(kind));
  }
  return kinds;
}

// Self-verification judges the steps: a factor without gradient, or one that does not move, fails.
TEST_P(RouterAdapterTest, RoutersTrainAlone) {
  const std::vector<double> numbers = Trained(Options({}));
  ASSERT_EQ(numbers.size(), 12u);
  EXPECT_GT(numbers[1], 0.0);
  EXPECT_LT(numbers[10], numbers[0]);
  std::printf("%s: loss sum %.6f -> %.6f, first norm %.3e\n", GetParam().name.c_str(), numbers[0],
              numbers[10], numbers[1]);
}

TEST_P(RouterAdapterTest, RecomputeLevelsGiveTheSameBits) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{}, std::vector<std::string>{"o_proj"}}) {
    PlanOptions options = Options(targets);
    const std::vector<double> kept = Trained(options);
    ASSERT_FALSE(kept.empty());
    for (const auto& [level, every] : std::vector<std::pair<std::string, int64_t>>{
             {"norm_swiglu", 1}, {"ffn", 1}, {"block", 1}, {"block", 2}}) {
      options.recompute = level;
      options.recompute_every = every;
      EXPECT_EQ(Trained(options), kept) << level << " " << every;
    }
  }
}

// The adapter that begins as nothing changes nothing, and one that does not changes the loss: A and
// B are those of the logits.
TEST_P(RouterAdapterTest, OnlyBChangesWhatIsComputed) {
  const PlanOptions options = Options({});
  const std::unique_ptr<State> state = Prepared(options);
  ASSERT_NE(state, nullptr);
  const TrainStep step = MakeStep(0, Bins());
  const double before = GradientStep(*state, step);
  for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
    const model::Parameter& parameter = state->plan.parameters[i];
    if (!parameter.trainable()) continue;
    ASSERT_EQ(parameter.kind, model::Kind::kRouter) << parameter.name;
    const bool a = model::IsLoraA(parameter);
    double squares = 0;
    for (const double value : GradientOf(*state, i)) squares += value * value;
    EXPECT_EQ(squares == 0, a) << parameter.name;  // through B, which is zero
    if (a) continue;
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    for (size_t j = 0; j < values.size(); ++j) values[j] = static_cast<float>(j % 5) - 2.0f;
    SetTrainedValues(*state, i, values);
  }
  EXPECT_NE(GradientStep(*state, step), before);
}

INSTANTIATE_TEST_SUITE_P(All, RouterAdapterTest, testing::ValuesIn(KindsWithRouters()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace router_adapter_test
}  // namespace coxswain::engine
