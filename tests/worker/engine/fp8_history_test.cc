// Delayed scales of products in FP8: what an update makes of what its steps observed. Bits that do
// not depend on how a step is run: fp8_products_test.cc; of several ranks: sharded_fp8_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/plan/fp8_history.h"
#include "kernels/quantize/fp8_history.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/fp8_history.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace fp8_history_test {
namespace {

using kernels::kFp8History;
using Values = std::vector<float>;

PlanOptions Options() {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  options.fp8.recipe = plan::Fp8Recipe::kDelayed;
  return options;
}

plan::Plan PlanOf(const PlanOptions& options = Options()) {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 144;
  return MakePlan(config, options);
}

std::unique_ptr<State> StateOf(const plan::Plan& plan, const std::string& checkpoint = "") {
  std::string doing;
  auto state = MakeState(plan, 0, checkpoint, &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.ok() ? std::move(*state) : nullptr;
}

// Other documents in each step.
TrainStep StepOf(int64_t step) {
  return MakeStep(step, RandomBins({{17, 9, 1}, {31, 3}, {8}}, SmallConfig().vocab_size,
                                   static_cast<uint64_t>(step)));
}

StepStats Train(State& state, int64_t step) {
  const auto stats = RunTrainStep(state, StepOf(step));
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.ok() ? *stats : StepStats();
}

Values Read(const float* from, int64_t count) {
  return ReadFloats(from, kernels::DType::kFloat32, count);
}
Values Expected(const State& state) {
  return Read(state.buffers.fp8_expected, plan::Fp8Operands(state.plan));
}
Values Observed(const State& state) {
  return Read(state.buffers.fp8_observed, plan::Fp8Operands(state.plan));
}
Values History(const State& state) {
  return Read(state.buffers.fp8_history, plan::Fp8Operands(state.plan) * kFp8History);
}
// Slot of each operand.
Values Slot(const State& state, int64_t slot) {
  const Values history = History(state);
  Values values;
  for (size_t i = static_cast<size_t>(slot); i < history.size(); i += kFp8History) {
    values.push_back(history[i]);
  }
  return values;
}
Values Twice(Values values) {
  for (float& value : values) value *= 2;
  return values;
}
Values Zeros(const State& state) {
  return Values(static_cast<size_t>(plan::Fp8Operands(state.plan)), 0.0f);
}

// Every slot of every operand.
void FillHistory(const State& state, float amax) {
  WriteFloats(Values(History(state).size(), amax), state.buffers.fp8_history,
              kernels::DType::kFloat32);
  ReadFp8History(state.plan, state.buffers);
}

Values AllTrained(const State& state) {
  Values all;
  for (size_t i = 0; i < state.plan.parameters.size(); ++i) {
    if (!state.plan.parameters[i].trainable()) continue;
    const Values values = TrainedValues(state, i);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Nothing is left of a warm-up.
TEST(DelayedScalesTest, BeginsEmptyAndTakesTheFirstStep) {
  const std::unique_ptr<State> state = StateOf(PlanOf());
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(History(*state), Values(History(*state).size(), 0.0f));
  EXPECT_EQ(Expected(*state), Zeros(*state));
  EXPECT_EQ(Observed(*state), Zeros(*state));
  Train(*state, 0);
  const Values first = Slot(*state, 0);
  for (const float amax : first) EXPECT_GT(amax, 0.0f);
  EXPECT_EQ(Slot(*state, 1), Zeros(*state));
  EXPECT_EQ(Expected(*state), Twice(first));
  EXPECT_EQ(Observed(*state), Zeros(*state));
}

// Of x and of dy, apart: they are of other sizes.
TEST(DelayedScalesTest, HoldsTheLargestOfEveryMicroStep) {
  PlanOptions one_bin = Options();
  one_bin.micro_batch_bins = 1;
  Values all[2];
  for (const bool cut : {false, true}) {
    const std::unique_ptr<State> state = StateOf(PlanOf(cut ? one_bin : Options()));
    ASSERT_NE(state, nullptr);
    FillHistory(*state, 1.0f);
    GradientStep(*state, StepOf(0));
    all[cut] = Observed(*state);
    EXPECT_EQ(Expected(*state), Values(all[cut].size(), 2.0f));
    for (size_t i = 0; i < all[cut].size(); i += 2) EXPECT_GT(all[cut][i], all[cut][i + 1]);
  }
  // The scales are those of the history however the step is cut, so that values differ by rounding.
  // In bfloat16 a value may so take the next code: 2^-3 of one of 64 terms of a sum, as squares
  // 2^-6 of it, through 14 products 0.06.
  const float rounding = TestDevice() == "cpu" ? 1e-5f : 0.06f;
  for (size_t i = 0; i < all[0].size(); ++i) {
    EXPECT_NEAR(all[1][i] / all[0][i], 1.0f, rounding) << i;
  }
}

TEST(DelayedScalesTest, ForgetsAnUpdateAfter32) {
  const std::unique_ptr<State> state = StateOf(PlanOf());
  ASSERT_NE(state, nullptr);
  Values past = History(*state);
  const float large = 64.0f;
  past[5] = large;  // of the first operand, in the slot of update 5
  WriteFloats(past, state->buffers.fp8_history, kernels::DType::kFloat32);
  ReadFp8History(state->plan, state->buffers);
  EXPECT_EQ(Expected(*state)[0], 2 * large);
  for (int64_t step = 0; step < kFp8History + 2; ++step) {
    Train(*state, step);
    const Values now = History(*state);
    for (size_t i = 0; i < now.size(); ++i) {
      const bool moved = i % kFp8History == static_cast<size_t>(step % kFp8History);
      if (!moved) {
        ASSERT_EQ(now[i], past[i]) << "update " << step << ", " << i;
      }
    }
    EXPECT_EQ(Expected(*state)[0] == 2 * large, step < 5) << step;
    const float most = *std::max_element(now.begin(), now.begin() + kFp8History);
    EXPECT_EQ(Expected(*state)[0], 2 * most);
    past = now;
  }
}

// They read the scales of training and leave no trace.
TEST(DelayedScalesTest, EvaluationsReadItAndRecordNothing) {
  const std::unique_ptr<State> plain = StateOf(PlanOf()), state = StateOf(PlanOf());
  ASSERT_TRUE(plain != nullptr && state != nullptr);
  const BinBatch bins = StepOf(7).bins;
  for (int64_t step = 0; step < 2; ++step) {
    Train(*plain, step);
    Train(*state, step);
    const auto evaluated = RunEvaluation(*state, bins);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    EXPECT_EQ(Observed(*state), Zeros(*state));
    EXPECT_EQ(History(*state), History(*plain));
  }
  EXPECT_EQ(AllTrained(*state), AllTrained(*plain));
  const auto with = RunEvaluation(*state, bins);
  ClearFp8History(state->plan, state->buffers);
  const auto without = RunEvaluation(*state, bins);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_NE(with->loss_sum, without->loss_sum);
}

// Values grow beyond what was expected: they take the largest code, and the next step expects more.
TEST(DelayedScalesTest, WhatIsBeyondTheMarginSaturates) {
  const std::unique_ptr<State> state = StateOf(PlanOf());
  ASSERT_NE(state, nullptr);
  FillHistory(*state, 1e-3f);
  const StepStats stats = Train(*state, 0);
  EXPECT_TRUE(stats.applied);
  EXPECT_TRUE(std::isfinite(stats.grad_norm));
  EXPECT_GT(Slot(*state, 0)[0], 2e-3f);
  EXPECT_EQ(Expected(*state)[0], 2 * Slot(*state, 0)[0]);
}

// The index of the norm before the first linear.
size_t FirstNorm(const plan::Plan& plan) {
  const auto found = std::find_if(
      plan.parameters.begin(), plan.parameters.end(), [](const model::Parameter& parameter) {
        return parameter.name == "model.layers.0.input_layernorm.weight";
      });
  return static_cast<size_t>(found - plan.parameters.begin());
}

// An infinite x takes the largest code, so that every gradient is finite: adapters of the last
// projection alone, whose x the block before does not reach. What was observed skips the step.
TEST(DelayedScalesTest, AnInfiniteOperandSkipsTheStepAndIsForgotten) {
  PlanOptions options = Options();
  options.lora_rank = 4;
  options.lora_targets = {"down_proj"};
  const std::unique_ptr<State> plain = StateOf(PlanOf(options)), state = StateOf(PlanOf(options));
  ASSERT_TRUE(plain != nullptr && state != nullptr);
  for (int64_t step = 0; step < 2; ++step) {
    Train(*plain, step);
    Train(*state, step);
  }
  const Values history = History(*state), expected = Expected(*state);
  const size_t norm = FirstNorm(state->plan);
  const Values weight = TrainedValues(*state, norm);
  Values infinite = weight;
  infinite[3] = std::numeric_limits<float>::infinity();
  SetTrainedValues(*state, norm, infinite);
  GradientStep(*state, StepOf(2));
  for (const float gradient : AllGradients(*state)) ASSERT_TRUE(std::isfinite(gradient));
  const StepStats skipped = Train(*state, 2);
  EXPECT_FALSE(skipped.applied);
  EXPECT_GE(skipped.nonfinite, 1);
  EXPECT_EQ(History(*state), history);
  EXPECT_EQ(Expected(*state), expected);
  EXPECT_EQ(Observed(*state), Zeros(*state));
  // As if the step had not been.
  SetTrainedValues(*state, norm, weight);
  EXPECT_TRUE(Train(*plain, 3).applied);
  EXPECT_TRUE(Train(*state, 3).applied);
  EXPECT_EQ(History(*state), History(*plain));
  EXPECT_EQ(AllTrained(*state), AllTrained(*plain));
}

// Bit for bit, with the history in the file of rank 0.
TEST(DelayedScalesTest, CheckpointsHoldIt) {
  for (const int64_t lora_rank : {0, 4}) {
    PlanOptions options = Options();
    options.lora_rank = lora_rank;
    const plan::Plan plan = PlanOf(options);
    const support::ScratchFolder folder;
    auto engine = Engine::Prepare(plan, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    std::vector<StepStats> whole;
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 3) {
        ASSERT_TRUE((*engine)->Snapshot(3).ok());
      }
      const auto stats = (*engine)->Train(StepOf(step));
      ASSERT_TRUE(stats.ok()) << stats.status();
      whole.push_back(*stats);
    }
    ASSERT_TRUE((*engine)->SaveShard(folder.path(), 3).ok());
    SealCheckpoint(folder.path());
    const auto file = SafetensorsFile::Open(folder.path() + "/rank-0.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const TensorInfo* history = (*file)->Find(plan::kFp8HistoryTensor);
    ASSERT_NE(history, nullptr);
    const int64_t operands = plan::Fp8Operands(plan);
    EXPECT_EQ(history->shape, (std::vector<int64_t>{operands, kFp8History}));

    const std::unique_ptr<State> state = StateOf(plan, folder.path());
    ASSERT_NE(state, nullptr);
    Values values(static_cast<size_t>(operands * kFp8History));
    ASSERT_TRUE(CopyRangeAsFloat(*history, 0, operands * kFp8History, values.data()).ok());
    EXPECT_EQ(History(*state), values);
    EXPECT_NE(Slot(*state, 2), Zeros(*state));
    EXPECT_EQ(Slot(*state, 3), Zeros(*state));
    for (int64_t step = 3; step < 6; ++step) {
      const StepStats stats = Train(*state, step);
      const StepStats& want = whole[static_cast<size_t>(step)];
      EXPECT_EQ(stats.global_loss_sum, want.global_loss_sum) << step;
      EXPECT_EQ(stats.grad_norm, want.grad_norm) << step;
    }
  }
}

}  // namespace
}  // namespace fp8_history_test
}  // namespace coxswain::engine
