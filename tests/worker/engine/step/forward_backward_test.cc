// A step in halves is the step: batches, then the update by their gradients. Invariants engine-3
// and engine-4.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/forward_backward.h"
#include "worker/engine/step/update.h"

namespace coxswain::engine {
namespace forward_backward_test {
namespace {

constexpr int64_t kVocab = 131;

// kBatches: each micro-step is a batch of its own. kOpen: the last one is not said to be so. kBusy:
// kBatches, with evaluations between.
enum class Way { kTrain, kHalves, kBatches, kOpen, kBusy };

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> values;  // of each trained tensor, at the end
  bool operator==(const Outcome&) const = default;
};

PlanOptions Options(int64_t lora_rank, bool dora = false) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.lora_rank = lora_rank;
  options.dora = dora;
  options.dropout = lora_rank > 0 && !dora ? 0.2 : 0;
  if (TestDevice() == "cuda") options.compute_dtype = "bfloat16";
  return options;
}

model::ModelConfig Config() {
  model::ModelConfig config = SmallConfig();
  if (TestDevice() == "cuda") config.head_dim = 16;
  config.vocab_size = kVocab;
  return config;
}

std::unique_ptr<State> Prepare(const PlanOptions& options) {
  std::string doing;
  auto state = MakeState(MakePlan(Config(), options), 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  return std::move(*state);
}

TrainStep StepOf(int64_t step) {
  return MakeStep(
      step, RandomBins({{17, 9, 1}, {31, 3}, {8}, {40}}, kVocab, 10 + static_cast<uint64_t>(step)));
}

// The bins [first, first + count) of a step.
GradientBatch BatchOf(const TrainStep& step, size_t first, size_t count, bool last) {
  GradientBatch batch = step;
  batch.bins = Slice(step.bins, first, count);
  batch.last = last;
  return batch;
}

StepStats TrainBy(Way way, State& state, const TrainStep& step) {
  if (way == Way::kTrain) return RunTrainStep(state, step).value();
  double loss_sum = 0;
  const auto run = [&](size_t first, size_t count, bool last) {
    const auto stats = RunForwardBackward(state, BatchOf(step, first, count, last));
    EXPECT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->targets, Targets(Slice(step.bins, first, count)));
    loss_sum += stats->loss_sum;
  };
  if (way == Way::kHalves) {
    run(0, 4, true);
  } else {
    const auto evaluate = [&] { return way != Way::kBusy || RunEvaluation(state, step.bins).ok(); };
    run(0, 2, false);
    EXPECT_TRUE(evaluate());
    run(2, 2, way != Way::kOpen);
    EXPECT_TRUE(evaluate());
  }
  const auto stats = RunUpdate(state, step.update());
  EXPECT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->loss_sum, loss_sum);
  EXPECT_EQ(stats->loss_denominator, step.loss_denominator);
  return *stats;
}

Outcome TrainThreeSteps(Way way, const PlanOptions& options) {
  const std::unique_ptr<State> state = Prepare(options);
  Outcome run;
  for (int64_t step = 0; step < 3; ++step) {
    const StepStats stats = TrainBy(way, *state, StepOf(step));
    EXPECT_TRUE(stats.applied);
    run.losses.push_back(stats.loss_sum);
    run.norms.push_back(stats.grad_norm);
  }
  EXPECT_EQ(state->applied_updates, 3);
  for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
    if (state->plan.parameters[i].trainable()) run.values.push_back(TrainedValues(*state, i));
  }
  return run;
}

// A batch of one micro-step makes the launches that the step makes for it. The losses of batches
// are added on the host, those of a step on the device: rounding of doubles.
void ExpectSame(const Outcome& halves, const Outcome& whole) {
  EXPECT_EQ(halves.values, whole.values);
  EXPECT_EQ(halves.norms, whole.norms);
  ASSERT_EQ(halves.losses.size(), whole.losses.size());
  for (size_t step = 0; step < whole.losses.size(); ++step) {
    EXPECT_NEAR(halves.losses[step], whole.losses[step], 1e-15 * whole.losses[step]) << step;
  }
}

TEST(ForwardBackwardTest, HalvesAndBatchesHaveTheBitsOfTheStep) {
  const std::vector<PlanOptions> methods = {Options(0), Options(4), Options(4, /*dora=*/true)};
  for (const PlanOptions& options : methods) {
    SCOPED_TRACE(testing::Message() << options.lora_rank << options.dora);
    const Outcome whole = TrainThreeSteps(Way::kTrain, options);
    EXPECT_EQ(TrainThreeSteps(Way::kHalves, options), whole);
    for (const Way way : {Way::kBatches, Way::kOpen, Way::kBusy}) {
      SCOPED_TRACE(static_cast<int>(way));
      ExpectSame(TrainThreeSteps(way, options), whole);
    }
  }
}

void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(status.message().find(text) != std::string::npos) << status;
}

TEST(ForwardBackwardTest, AnotherOrderIsRefusedNamingBoth) {
  const std::unique_ptr<State> state = Prepare(Options(0));
  const TrainStep step = StepOf(0);
  ExpectRefused(RunUpdate(*state, step.update()).status(), "there are no gradients");
  ASSERT_TRUE(RunForwardBackward(*state, BatchOf(step, 0, 2, false)).ok());
  ExpectRefused(RunTrainStep(*state, step).status(), "1 batches of step 0 wait");
  ExpectRefused(RunUpdate(*state, StepOf(1).update()).status(), "the gradients are of step 0");
  GradientBatch other = BatchOf(StepOf(1), 2, 2, true);
  other.loss_denominator = step.loss_denominator;
  ExpectRefused(RunForwardBackward(*state, other).status(), "wait for their update");
  other = BatchOf(step, 2, 2, true);
  ++other.loss_denominator;
  ExpectRefused(RunForwardBackward(*state, other).status(), "wait for their update");
  ASSERT_TRUE(RunForwardBackward(*state, BatchOf(step, 2, 2, true)).ok());
  ExpectRefused(RunForwardBackward(*state, BatchOf(step, 0, 2, true)).status(), "are complete");
  // What was refused has changed nothing.
  const auto stats = RunUpdate(*state, step.update());
  ASSERT_TRUE(stats.ok()) << stats.status();
  const StepStats whole = RunTrainStep(*Prepare(Options(0)), step).value();
  EXPECT_EQ(stats->grad_norm, whole.grad_norm);
  ExpectRefused(RunUpdate(*state, step.update()).status(), "there are no gradients");
  EXPECT_EQ(RunUpdate(*state, {0, -1}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forward_backward_test
}  // namespace coxswain::engine
