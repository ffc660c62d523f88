// Attention in FP8: near that of the compute dtype, the same bits however a step is run, a
// document at a time, and in training and evaluation alone. Linears stay out of FP8, so that
// attention is what differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "tests/worker/engine/support/trained_steps.h"
#include "worker/engine/generate/generate.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace fp8_attention_test {
namespace {

// Grouped heads; a window in the block between.
model::ModelConfig Config() {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.layer_windows = {0, 20, 0};
  return config;
}

std::vector<plan::LinearPlace> AllLinears(const plan::Plan& plan) {
  std::vector<plan::LinearPlace> places;
  for (size_t layer = 0; layer < plan.architecture.blocks.size(); ++layer) {
    for (const model::PlainOp& op : plan.architecture.blocks[layer].ops) {
      const auto* linear = std::get_if<model::LinearOp>(&op);
      if (linear != nullptr) places.push_back({static_cast<int64_t>(layer), linear->id});
    }
  }
  return places;
}

PlanOptions Options(bool attention, int64_t lora_rank = 0) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 150;  // more than a tile of keys
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.lora_rank = lora_rank;
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  options.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  options.fp8.attention = attention;
  options.fp8.excluded = AllLinears(MakePlan(Config(), options));
  return options;
}

std::unique_ptr<State> Prepare(const PlanOptions& options) {
  return StartState(MakePlan(Config(), options));
}

BinBatch BinsOf(int64_t step) {
  return step == 1 ? RandomBins({{150}, {131}, {7}}, Config().vocab_size, 5)
                   : RandomBins({{97, 9, 1}, {131, 3}, {8}, {22}}, Config().vocab_size, 5);
}

double EvaluationLoss(State& state, const BinBatch& bins) {
  const auto stats = RunEvaluation(state, bins);
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.ok() ? stats->loss_sum : 0;
}

// What attention puts out is off by a relative e, e^2 <= 4 2^-8 / 3 of values of independent signs
// (tests/kernels/attention/fp8_attention_test.cc). The forward of three blocks adds it up three
// times, and so does backward, which reads what forward put out: e^2 <= 6 * 4 2^-8 / 3 = 0.031. The
// cosine of two vectors apart by e is 1 - e^2 / 2.
TEST(Fp8AttentionEngineTest, GradientsAreNearThoseOfTheComputeDtype) {
  for (const int64_t rank : {0, 4}) {
    const std::unique_ptr<State> exact = Prepare(Options(false, rank));
    const std::unique_ptr<State> state = Prepare(Options(true, rank));
    ASSERT_TRUE(exact != nullptr && state != nullptr);
    const TrainStep step = MakeStep(0, BinsOf(0));
    const double loss = GradientStep(*exact, step), in_fp8 = GradientStep(*state, step);
    EXPECT_NE(in_fp8, loss);
    EXPECT_NEAR(in_fp8, loss, 0.01 * loss);
    for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
      const model::Parameter& parameter = state->plan.parameters[i];
      // A is exactly without a gradient while B is zero.
      if (!parameter.trainable() || model::IsLoraA(parameter)) continue;
      // The gradient of a bias of k is rounding alone: softmax does not see it.
      if (parameter.name.find("k_proj.bias") != std::string::npos) continue;
      EXPECT_GE(Cosine(GradientOf(*state, i), GradientOf(*exact, i)), 1 - 0.031 / 2)
          << parameter.name;
    }
  }
}

TrainedSteps TrainThreeSteps(const PlanOptions& options, bool graphs = true) {
  return TrainSteps(MakePlan(Config(), options), 3, BinsOf, graphs);
}

TEST(Fp8AttentionEngineTest, HoweverAStepIsRunItsBitsAreTheSame) {
  for (const int64_t rank : {0, 4}) {
    const PlanOptions options = Options(true, rank);
    const TrainedSteps run = TrainThreeSteps(options);
    EXPECT_EQ(TrainThreeSteps(options), run);
    EXPECT_EQ(TrainThreeSteps(options, /*graphs=*/false), run);
    EXPECT_NE(TrainThreeSteps(Options(false, rank)), run);
    for (const char* level : {"norm_swiglu", "ffn", "block"}) {
      PlanOptions other = options;
      other.recompute = level;
      other.recompute_every = std::string(level) == "block" ? 2 : 1;
      EXPECT_EQ(TrainThreeSteps(other), run) << level;
    }
  }
}

TEST(Fp8AttentionEngineTest, TheLossFalls) {
  PlanOptions options = Options(true);
  options.fp8.excluded.clear();
  const std::unique_ptr<State> state = Prepare(options);
  ASSERT_NE(state, nullptr);
  double first = 0, last = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const auto stats = RunTrainStep(*state, MakeStep(step, BinsOf(0), 1e-2));
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_TRUE(stats->applied);
    last = stats->loss_sum;
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.7 * first);
}

// The loss of the first document alone, whatever stands in the second.
TEST(Fp8AttentionEngineTest, ADocumentDoesNotReachItsNeighbours) {
  const std::unique_ptr<State> state = Prepare(Options(true));
  ASSERT_NE(state, nullptr);
  BinBatch bins = RandomBins({{97, 40}}, Config().vocab_size, 5);
  std::fill(bins.targets.begin() + 97, bins.targets.end(), 0);
  const double loss = EvaluationLoss(*state, bins);
  for (size_t i = 97; i < bins.token_ids.size(); ++i)
    bins.token_ids[i] = (bins.token_ids[i] + 7) % 131;
  EXPECT_EQ(EvaluationLoss(*state, bins), loss);
  bins.token_ids[0] = (bins.token_ids[0] + 7) % 131;
  EXPECT_NE(EvaluationLoss(*state, bins), loss);
}

TEST(Fp8AttentionEngineTest, EvaluationIsInFp8) {
  const std::unique_ptr<State> state = Prepare(Options(true)), exact = Prepare(Options(false));
  ASSERT_TRUE(exact != nullptr && state != nullptr);
  const double loss = EvaluationLoss(*exact, BinsOf(0)), in_fp8 = EvaluationLoss(*state, BinsOf(0));
  EXPECT_NE(in_fp8, loss);
  EXPECT_NEAR(in_fp8, loss, 0.01 * loss);
}

// Prompts have no targets: rows of gradients are zero.
TEST(Fp8AttentionEngineTest, RowsWithoutTargetsSkipNoStep) {
  PlanOptions options = Options(true);
  options.fp8.excluded.clear();
  const std::unique_ptr<State> state = Prepare(options);
  ASSERT_NE(state, nullptr);
  BinBatch bins = RandomBins({{150}, {150}, {140}, {7}}, Config().vocab_size, 5);
  for (size_t i = 0; i < bins.targets.size(); ++i) bins.targets[i] &= i % 150 > 130;
  for (int64_t step = 0; step < 3; ++step) {
    const auto stats = RunTrainStep(*state, MakeStep(step, bins));
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_TRUE(stats->applied);
    EXPECT_GT(stats->grad_norm, 0);
  }
}

// Prompts and answers are computed in the compute dtype.
TEST(Fp8AttentionEngineTest, AnswersAreThoseOfTheComputeDtype) {
  std::vector<std::vector<float>> logits;
  for (const bool attention : {false, true}) {
    const std::unique_ptr<State> state =
        StartState(WithGeneration(MakePlan(Config(), Options(attention)), 2, 80));
    ASSERT_NE(state, nullptr);
    GenerateChunk chunk{.prompts = {{5, 6, 7, 8, 9, 1, 2}, {3, 4, 11}}};
    chunk.tokens = 4;
    const auto stats = RunGenerate(*state, chunk);
    ASSERT_TRUE(stats.ok()) << stats.status();
    logits.push_back(ReadFloats(state->buffers.logits, state->model.compute_dtype,
                                2 * state->plan.model.vocab_size));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(Fp8AttentionEngineTest, HeadsThatHaveNoneAreRefused) {
  model::ModelConfig config = Config();
  config.head_dim = 24;
  PlanOptions options = Options(true);
  options.fp8.excluded.clear();
  std::string doing;
  const auto state = MakeState(MakePlan(config, options), 0, "", &doing);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(state.status().message().find(
                "precision.fp8.attention is fp8, which this GPU or build has not for heads of 24"),
            std::string::npos)
      << state.status();
}

}  // namespace
}  // namespace fp8_attention_test
}  // namespace coxswain::engine
