// Products of blocks in FP8: near those of the compute dtype, the same bits however a step is run,
// and no step is skipped for rows without targets.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/plan/fp8_linears.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "tests/worker/engine/support/trained_steps.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace fp8_products_test {
namespace {

using plan::Fp8Recipe;

constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kTensorwise, Fp8Recipe::kRowwise,
                                  Fp8Recipe::kBlockwise, Fp8Recipe::kDelayed};

model::ModelConfig Config() {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 144;  // more than one tile of 128
  return config;
}

PlanOptions Options(Fp8Recipe recipe, int64_t lora_rank = 0) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.lora_rank = lora_rank;
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  options.fp8.recipe = recipe;
  options.fp8.e4m3_gradients = recipe == Fp8Recipe::kRowwise || recipe == Fp8Recipe::kBlockwise;
  return options;
}

std::unique_ptr<State> Prepare(const PlanOptions& options) {
  return StartState(MakePlan(Config(), options));
}

// Micro-steps of one document and of several in turns: a shape is seen first at a later micro-step.
BinBatch BinsOf(int64_t step) {
  return step == 1 ? RandomBins({{40}, {31}, {7}}, Config().vocab_size, 5)
                   : RandomBins({{17, 9, 1}, {31, 3}, {8}, {22}}, Config().vocab_size, 5);
}

BinBatch Bins() { return RandomBins({{17, 9, 1}, {31, 3}, {8}}, Config().vocab_size, 5); }

TrainedSteps TrainThreeSteps(const PlanOptions& options, bool graphs = true) {
  return TrainSteps(MakePlan(Config(), options), 3, BinsOf, graphs);
}

// A value in E4M3 is off by a relative e, uniform within 2^-4 at most: e^2 is 2^-8 / 3 on average
// at most, in E5M2 four times that. A product of two has the sum of both. Through the 14 products
// before the gradient of the first block's q they add up as squares: e^2 <= 14 (5 2^-8 / 3) = 0.09,
// and the cosine of two vectors apart by e is 1 - e^2 / 2.
constexpr double kLeastCosine = 1 - 0.09 / 2;

void ExpectNearTheComputeDtype(int64_t lora_rank) {
  PlanOptions exact = Options(Fp8Recipe::kNone, lora_rank);
  if (lora_rank > 0) exact.modules_to_save = {"norm"};
  const std::unique_ptr<State> base = Prepare(exact);
  ASSERT_NE(base, nullptr);
  const TrainStep step = MakeStep(0, Bins());
  const double loss = GradientStep(*base, step);
  for (const Fp8Recipe recipe : kRecipes) {
    PlanOptions options = Options(recipe, lora_rank);
    options.modules_to_save = exact.modules_to_save;
    const std::unique_ptr<State> state = Prepare(options);
    ASSERT_NE(state, nullptr);
    const double in_fp8 = GradientStep(*state, step);
    EXPECT_NE(in_fp8, loss) << plan::NameOf(recipe);
    EXPECT_NEAR(in_fp8, loss, 0.01 * loss) << plan::NameOf(recipe);
    for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
      const model::Parameter& parameter = state->plan.parameters[i];
      // A is exactly without a gradient while B is zero.
      if (!parameter.trainable() || model::IsLoraA(parameter)) continue;
      // The gradient of a bias of k is rounding alone: softmax does not see it.
      if (parameter.name.find("k_proj.bias") != std::string::npos) continue;
      EXPECT_GE(Cosine(GradientOf(*state, i), GradientOf(*base, i)), kLeastCosine)
          << plan::NameOf(recipe) << " " << parameter.name;
    }
  }
}

TEST(Fp8ProductsTest, GradientsAreNearThoseOfTheComputeDtype) { ExpectNearTheComputeDtype(0); }
TEST(Fp8ProductsTest, GradientsOfAdaptersAreNearThoseOfTheComputeDtype) {
  ExpectNearTheComputeDtype(4);
}

TEST(Fp8ProductsTest, HoweverAStepIsRunItsBitsAreTheSame) {
  for (const Fp8Recipe recipe : kRecipes) {
    for (const int64_t rank : {0, 4}) {
      SCOPED_TRACE(testing::Message() << plan::NameOf(recipe) << " rank " << rank);
      const PlanOptions options = Options(recipe, rank);
      const TrainedSteps run = TrainThreeSteps(options);
      EXPECT_EQ(TrainThreeSteps(options), run);
      EXPECT_EQ(TrainThreeSteps(options, /*graphs=*/false), run);
      for (const bool kept : {true, false}) {
        for (const char* level : {"none", "norm_swiglu", "ffn", "block"}) {
          PlanOptions other = options;
          other.fp8.keeps_activations = kept;
          other.fp8.keeps_weights = !kept;
          other.recompute = level;
          other.recompute_every = std::string(level) == "block" ? 2 : 1;
          EXPECT_EQ(TrainThreeSteps(other), run)
              << level << (kept ? ", activations kept" : ", weights kept");
        }
      }
    }
  }
}

TEST(Fp8ProductsTest, DoraAndDropoutRun) {
  for (const Fp8Recipe recipe : kRecipes) {
    PlanOptions options = Options(recipe, 4);
    options.dora = true;
    const TrainedSteps dora = TrainThreeSteps(options);
    options.recompute = "block";
    EXPECT_EQ(TrainThreeSteps(options), dora) << plan::NameOf(recipe);
    options = Options(recipe, 4);
    const TrainedSteps plain = TrainThreeSteps(options);
    options.dropout = 0.3;
    EXPECT_NE(TrainThreeSteps(options), plain) << plan::NameOf(recipe);
    EXPECT_NE(dora, plain) << plan::NameOf(recipe);
  }
}

// The base is computed before the model with its adapters, from the first micro-step on.
TEST(Fp8ProductsTest, TheReferenceOfAPreferenceReadsTheSameWeights) {
  for (const Fp8Recipe recipe : kRecipes) {
    std::vector<double> losses[2];
    for (const bool kept : {false, true}) {
      PlanOptions options = Options(recipe, 4);
      options.fp8.keeps_weights = kept;
      plan::Plan plan = MakePlan(Config(), options);
      plan.max_documents_per_bin = 2;
      plan.document_loss.terms = {{"sigmoid", 1}};
      plan.document_loss.reference = "base";
      Finish(&plan);
      std::string doing;
      const auto state = MakeState(plan, 0, "", &doing);
      ASSERT_TRUE(state.ok()) << state.status();
      const BinBatch bins = RandomBins({{17, 9}, {20, 13}, {12, 8}}, Config().vocab_size, 5);
      const auto evaluated = RunEvaluation(**state, bins);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      losses[kept].push_back(evaluated->loss_sum);
      for (int64_t step = 0; step < 2; ++step) {
        TrainStep train = MakeStep(step, bins);
        train.loss_denominator = 3;
        const auto stats = RunTrainStep(**state, train);
        ASSERT_TRUE(stats.ok()) << stats.status();
        losses[kept].push_back(stats->loss_sum);
      }
    }
    EXPECT_EQ(losses[1], losses[0]) << plan::NameOf(recipe);
  }
}

// What LoRA leaves as it was read is quantised then, not in every step.
TEST(Fp8ProductsTest, FrozenWeightsAreQuantisedOnce) {
  for (const Fp8Recipe recipe : kRecipes) {
    PlanOptions options = Options(recipe, 4);
    options.fp8.keeps_weights = true;
    const std::unique_ptr<State> state = Prepare(options);
    ASSERT_NE(state, nullptr);
    const auto loss = [&] {
      const auto stats = RunEvaluation(*state, Bins());
      EXPECT_TRUE(stats.ok()) << stats.status();
      return stats.ok() ? stats->loss_sum : 0;
    };
    const double before = loss();
    const Linear& linear = state->model.blocks[1].linears.begin()->second;
    kernels::SetMemory(linear.weight.value, 0, 32 * linear.in, state->stream);
    EXPECT_EQ(loss(), before) << plan::NameOf(recipe);
    state->has_frozen_codes = false;
    EXPECT_NE(loss(), before) << plan::NameOf(recipe);
  }
}

// Prompts have no targets: rows of gradients of the last block are zero, whole tiles of them too.
TEST(Fp8ProductsTest, RowsWithoutTargetsSkipNoStep) {
  for (const Fp8Recipe recipe : kRecipes) {
    const std::unique_ptr<State> state = Prepare(Options(recipe));
    ASSERT_NE(state, nullptr);
    BinBatch bins = RandomBins({{40}, {40}, {40}, {40}}, Config().vocab_size, 5);
    // The second micro-step has two targets, whose rows leave whole tiles of zeros.
    for (size_t i = 0; i < bins.targets.size(); ++i) bins.targets[i] = i % 40 == 20 && i != 60;
    for (int64_t step = 0; step < 3; ++step) {
      const auto stats = RunTrainStep(*state, MakeStep(step, bins));
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_TRUE(stats->applied) << plan::NameOf(recipe);
      EXPECT_GT(stats->grad_norm, 0);
    }
  }
}

// Of a model of 3 blocks whose norms and gates are read by linears in FP8 alone.
TEST(Fp8ProductsTest, LayersShareRowsThatAreKeptInFp8) {
  const plan::Plan kept = MakePlan(Config(), Options(Fp8Recipe::kTensorwise));
  PlanOptions options = Options(Fp8Recipe::kTensorwise);
  options.fp8.keeps_activations = false;
  const plan::Plan plain = MakePlan(Config(), options);
  int64_t bytes[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    for (const plan::Buffer& row : (i == 0 ? kept : plain).buffers) {
      if (row.memory_class == plan::MemoryClass::kActivations) bytes[i] += row.bytes;
    }
  }
  const int64_t element = kept.compute_dtype == Precision::kFloat32 ? 4 : 2, tokens = 80;
  const int64_t width = 64 + 64 + 144;
  const int64_t codes = 3 * (3 * 256 + tokens * width + 3 * 256);  // at most, with their scales
  EXPECT_LE(bytes[0], bytes[1] - 2 * element * tokens * width + codes);
}

// The norm before experts is read by their router too, and kept as it is; that of the dense layers
// between is kept in FP8.
TEST(Fp8ProductsTest, KeptRowsOfOtherLayersAreNotOverwritten) {
  for (const BlockKind& kind : BlockKindsForFp8()) {
    if (kind.config.mixture.dense_layers.empty()) continue;
    std::vector<float> gradients[2];
    for (const bool kept : {false, true}) {
      PlanOptions options = Options(Fp8Recipe::kTensorwise);
      options.fp8.keeps_activations = kept;
      std::string doing;
      const auto state = MakeState(MakePlan(kind.config, options), 0, "", &doing);
      ASSERT_TRUE(state.ok()) << state.status();
      GradientStep(**state, MakeStep(0, Bins()));
      gradients[kept] = AllGradients(**state);
    }
    EXPECT_EQ(gradients[1], gradients[0]) << kind.name;
  }
}

TEST(Fp8ProductsTest, ExcludedLinearsStayAsTheyAre) {
  PlanOptions options = Options(Fp8Recipe::kTensorwise);
  const plan::Plan plan = MakePlan(Config(), options);
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
      const auto* linear = std::get_if<model::LinearOp>(&op);
      if (linear != nullptr) options.fp8.excluded.push_back({layer, linear->id});
    }
  }
  const TrainedSteps none = TrainThreeSteps(Options(Fp8Recipe::kNone));
  EXPECT_EQ(TrainThreeSteps(options), none);
  options.fp8.excluded.pop_back();
  EXPECT_NE(TrainThreeSteps(options), none);
}

}  // namespace
}  // namespace fp8_products_test
}  // namespace coxswain::engine
