// What a captured sweep must know of itself: a graph is replayed only where its launches would be
// made again. Invariant engine-4.
#include "worker/engine/batches/graphs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/generate/generate.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/document_loss.h"

namespace coxswain::engine {
namespace graphs_test {
namespace {

using Logits = std::vector<std::vector<float>>;

PlanOptions DoraOptions() {
  PlanOptions options;
  options.init = "random";
  options.lora_rank = 4;
  options.dora = true;
  options.sequence_len = 20;
  return options;
}

std::unique_ptr<State> Prepared(const plan::Plan& plan, bool graphs) {
  std::string doing;
  auto state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return nullptr;
  // As ranks of a gang do.
  (*state)->graphs.CaptureAtSecondUse();
  graphs ? (*state)->graphs.Enable() : (*state)->graphs.Disable();
  return std::move(*state);
}

// Two prompts in a sweep each, of equal length, three times with an update between.
Logits LogitsAfterUpdates(bool graphs) {
  const plan::Plan plan = WithGeneration(MakePlan(SmallConfig(), DoraOptions()), 2, 20);
  const std::unique_ptr<State> state = Prepared(plan, graphs);
  Logits logits;
  if (state == nullptr) return logits;
  const BinBatch bins = RandomBins({{20}}, plan.model.vocab_size, 3);
  for (int64_t step = 0; step < 3; ++step) {
    GenerateChunk chunk{.prompts = {{5, 6, 7}, {1, 2, 3}}};
    chunk.tokens = 1;
    EXPECT_TRUE(RunGenerate(*state, chunk).ok());
    logits.push_back(
        ReadFloats(state->buffers.logits, state->model.compute_dtype, plan.model.vocab_size));
    EXPECT_TRUE(RunTrainStep(*state, MakeStep(step, bins, 0.05)).ok());
  }
  return logits;
}

// The first sweep over prompts computes the factors of DoRA anew, those behind it do not.
TEST(GraphsTest, PromptsSeeTheFactorsOfTheLastUpdate) {
  EXPECT_EQ(LogitsAfterUpdates(/*graphs=*/true), LogitsAfterUpdates(/*graphs=*/false));
}

// Sums of log-probabilities of two micro-steps, three times with an update between.
std::vector<double> SumsAfterUpdates(bool graphs) {
  plan::Plan plan = MakePlan(SmallConfig(), DoraOptions());
  plan.document_loss.terms = {{"sigmoid"}};
  plan.document_loss.reference = "kept";
  Finish(&plan);
  const std::unique_ptr<State> state = Prepared(plan, graphs);
  std::vector<double> sums;
  if (state == nullptr) return sums;
  BinBatch bins = RandomBins({{10, 10}, {10, 10}}, plan.model.vocab_size, 3);
  for (size_t t = 0; t < bins.targets.size(); ++t) bins.targets[t] = t % 10 < 9;
  for (int64_t step = 0; step < 3; ++step) {
    const auto stats = RunLogProbs(*state, bins, /*without_adapters=*/false);
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return sums;
    sums.insert(sums.end(), stats->sums.begin(), stats->sums.end());
    TrainStep train = MakeStep(step, bins, 0.05);
    train.bins.references.assign(4, -20);
    const auto trained = RunTrainStep(*state, train);
    EXPECT_TRUE(trained.ok()) << trained.status();
  }
  return sums;
}

TEST(GraphsTest, LogProbabilitiesSeeTheFactorsOfTheLastUpdate) {
  EXPECT_EQ(SumsAfterUpdates(/*graphs=*/true), SumsAfterUpdates(/*graphs=*/false));
}

// Rows with a target are the head's: a forward of as many tokens is one graph whatever they are.
TEST(GraphsTest, AForwardIsOneShapeWhateverHasATarget) {
  PlanOptions options = DoraOptions();
  options.dora = false;
  options.head_chunk = 4;
  const std::unique_ptr<State> state = Prepared(MakePlan(SmallConfig(), options), /*graphs=*/true);
  ASSERT_NE(state, nullptr);
  BinBatch bins = RandomBins({{20}}, SmallConfig().vocab_size, 3);
  bins.targets.assign(20, 1);
  bins.targets.back() = 0;
  ASSERT_TRUE(RunTrainStep(*state, MakeStep(0, bins)).ok());
  const size_t shapes = state->graphs.shapes();
  for (int64_t step = 1; step < 4; ++step) {
    for (int64_t i = 0; i < 4; ++i) bins.targets[static_cast<size_t>(4 * step + i)] = 0;
    ASSERT_TRUE(RunTrainStep(*state, MakeStep(step, bins)).ok());
    EXPECT_EQ(state->graphs.shapes(), shapes + static_cast<size_t>(step));  // heads
  }
}

}  // namespace
}  // namespace graphs_test
}  // namespace coxswain::engine
