// Products of experts in FP8: near those of the compute dtype, the same bits however a step is run,
// beside adapters and on several ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/plan/fp8_history.h"
#include "common/plan/fp8_linears.h"
#include "kernels/quantize/quantized_formats.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/mixture_cases.h"
#include "tests/worker/engine/support/test_state.h"
#include "tests/worker/engine/support/trained_steps.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace fp8_experts_test {
namespace {

using plan::Fp8Recipe;

// A mixture whose widths its products in FP8 take, in full or with adapters of all that has some.
struct ExpertsCase {
  std::string name;
  model::ModelConfig config;
  int64_t lora_rank = 0;
};

std::vector<ExpertsCase> Cases() {
  std::vector<ExpertsCase> cases;
  for (const BlockKind& kind : MixtureKinds()) {
    for (const int64_t rank : {0, 3}) {
      ExpertsCase one{kind.name + (rank > 0 ? "Lora" : "Full"), kind.config, rank};
      one.config.mixture.width = 32;
      cases.push_back(one);
    }
  }
  return cases;
}

PlanOptions OptionsOf(const ExpertsCase& mixture, Fp8Recipe recipe, bool experts = true) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.head_chunk = 24;
  options.lora_rank = mixture.lora_rank;
  if (options.lora_rank > 0) {
    options.lora_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  }
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  options.fp8.recipe = recipe;
  options.fp8.experts = experts;
  return options;
}

std::unique_ptr<State> Prepare(const ExpertsCase& mixture, const PlanOptions& options) {
  return StartState(MakePlan(mixture.config, options));
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<float> gradients;  // of the step behind these
  bool operator==(const Trained&) const = default;
};

Trained Train(const ExpertsCase& mixture, const PlanOptions& options, bool graphs = true) {
  Trained run;
  const std::unique_ptr<State> state = Prepare(mixture, options);
  if (state == nullptr) return run;
  if (!graphs) state->graphs.Disable();
  for (int64_t step = 0; step < 2; ++step) {
    const auto stats = RunTrainStep(*state, MakeStep(step, MixtureBins(step)));
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return run;
    EXPECT_TRUE(stats->applied);
    run.losses.push_back(stats->global_loss_sum);
    run.norms.push_back(stats->grad_norm);
  }
  run.losses.push_back(GradientStep(*state, MakeStep(2, MixtureBins(2))));
  run.gradients = AllGradients(*state);
  return run;
}

class Fp8ExpertsTest : public testing::TestWithParam<ExpertsCase> {};

// All linears but those of experts.
std::vector<plan::LinearPlace> PlainLinears(const plan::Plan& plan) {
  std::vector<plan::LinearPlace> places;
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
      const auto* linear = std::get_if<model::LinearOp>(&op);
      if (linear != nullptr) places.push_back({layer, linear->id});
    }
  }
  return places;
}

// Random initialisation leaves them 0.
void SetBiasesOfExperts(const State& state) {
  for (size_t layer = 0; layer < state.model.blocks.size(); ++layer) {
    for (const model::PlainOp& op : state.plan.architecture.blocks[layer].ops) {
      const auto* stack = std::get_if<model::GroupedLinearOp>(&op);
      if (stack == nullptr || stack->bias == model::kNoTensor) continue;
      const Tensor& bias = state.model.blocks[layer].experts.at(stack->id).bias;
      std::vector<float> values;
      for (int64_t i = 0; i < stack->experts * stack->out_features; ++i) {
        values.push_back(0.25f * static_cast<float>(i % 7 - 3));
      }
      WriteFloats(values, bias.value, bias.dtype);
    }
  }
}

// The experts of the last block read and are read by what is exact, so that no router before them
// chooses otherwise. A value in E4M3 is off by a relative e, e^2 = 2^-8 / 3 on average at most, in
// E5M2 four times that. The rows of the last block's output have two products of two such values
// behind each other, e^2 <= 4 2^-8 / 3; a gradient below has a product of a gradient and a weight
// for each of them beside that, e^2 <= (4 + 2 (4 + 1)) 2^-8 / 3 = 0.02. The cosine of two vectors
// apart by e is 1 - e^2 / 2. The norms of blocks above do not amplify what is small beside the
// stream.
TEST_P(Fp8ExpertsTest, GradientsAreNearThoseOfTheComputeDtype) {
  PlanOptions options = OptionsOf(GetParam(), Fp8Recipe::kTensorwise, /*experts=*/false);
  const plan::Plan plan = MakePlan(GetParam().config, options);
  options.fp8.excluded = PlainLinears(plan);
  const std::unique_ptr<State> exact = Prepare(GetParam(), options);
  ASSERT_NE(exact, nullptr);
  SetBiasesOfExperts(*exact);
  const TrainStep step = MakeStep(0, MixtureBins(0));
  const double loss = GradientStep(*exact, step);
  // Of the last block alone.
  const int64_t last = plan.model.num_layers - 1;
  options.fp8.experts = true;
  for (int64_t layer = 0; layer < last; ++layer) {
    for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
      const auto* stack = std::get_if<model::GroupedLinearOp>(&op);
      if (stack != nullptr) options.fp8.excluded.push_back({layer, stack->id});
    }
  }
  std::sort(options.fp8.excluded.begin(), options.fp8.excluded.end());
  const std::unique_ptr<State> state = Prepare(GetParam(), options);
  ASSERT_NE(state, nullptr);
  SetBiasesOfExperts(*state);
  const double in_fp8 = GradientStep(*state, step);
  EXPECT_NE(in_fp8, loss);
  EXPECT_NEAR(in_fp8, loss, 0.01 * loss);
  for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
    const model::Parameter& parameter = state->plan.parameters[i];
    // A is exactly without a gradient while B is zero.
    if (!parameter.trainable() || model::IsLoraA(parameter)) continue;
    // The gradient of a bias of k is rounding alone: softmax does not see it.
    if (parameter.name.find("k_proj.bias") != std::string::npos) continue;
    EXPECT_GE(Cosine(GradientOf(*state, i), GradientOf(*exact, i)), 1 - 0.02 / 2) << parameter.name;
  }
}

TEST_P(Fp8ExpertsTest, HoweverAStepIsRunItsBitsAreTheSame) {
  const PlanOptions options = OptionsOf(GetParam(), Fp8Recipe::kTensorwise);
  const Trained run = Train(GetParam(), options);
  EXPECT_EQ(Train(GetParam(), options, /*graphs=*/false), run);
  const PlanOptions without = OptionsOf(GetParam(), Fp8Recipe::kTensorwise, /*experts=*/false);
  EXPECT_NE(Train(GetParam(), without), run);
  for (const auto& [level, kept] : {std::pair{"expert_out", true}, {"block", false}}) {
    PlanOptions other = options;
    other.fp8.keeps_weights = kept;
    other.recompute = level;
    EXPECT_EQ(Train(GetParam(), other), run) << level << (kept ? ", weights kept" : "");
  }
}

// Plain linears are left out, so that scales of experts are what differs from tensorwise.
TEST_P(Fp8ExpertsTest, DelayedScalesAreTheSameHoweverAStepIsRun) {
  PlanOptions options = OptionsOf(GetParam(), Fp8Recipe::kDelayed);
  options.fp8.excluded = PlainLinears(MakePlan(GetParam().config, options));
  const Trained run = Train(GetParam(), options);
  PlanOptions found = options;
  found.fp8.recipe = Fp8Recipe::kTensorwise;
  EXPECT_NE(Train(GetParam(), found), run);
  options.fp8.keeps_weights = true;
  options.recompute = "ffn";
  EXPECT_EQ(Train(GetParam(), options), run);
}

// Of x and dy of each stack, in the slot of the first update.
TEST_P(Fp8ExpertsTest, DelayedScalesRecordTheRowsOfExperts) {
  const std::unique_ptr<State> state =
      Prepare(GetParam(), OptionsOf(GetParam(), Fp8Recipe::kDelayed));
  ASSERT_NE(state, nullptr);
  const auto stats = RunTrainStep(*state, MakeStep(0, MixtureBins(0)));
  ASSERT_TRUE(stats.ok()) << stats.status();
  const int64_t operands = plan::Fp8Operands(state->plan);
  const std::vector<float> history = ReadFloats(
      state->buffers.fp8_history, kernels::DType::kFloat32, operands * kernels::kFp8History);
  plan::VisitFp8Experts(state->plan, [&](const model::GroupedLinearOp& experts, int64_t layer) {
    const int64_t x = plan::Fp8OperandOf(state->plan, experts, layer);
    EXPECT_GT(history[static_cast<size_t>(x * kernels::kFp8History)], 0) << layer;
    EXPECT_GT(history[static_cast<size_t>((x + 1) * kernels::kFp8History)], 0) << layer;
  });
}

// What adapters leave as it was read is quantised then; what is trained, in each command.
TEST_P(Fp8ExpertsTest, FrozenWeightsAreQuantisedOnce) {
  PlanOptions options = OptionsOf(GetParam(), Fp8Recipe::kTensorwise);
  options.fp8.keeps_weights = true;
  const std::unique_ptr<State> state = Prepare(GetParam(), options);
  ASSERT_NE(state, nullptr);
  const auto loss = [&] {
    const auto stats = RunEvaluation(*state, MixtureBins(0));
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats.ok() ? stats->loss_sum : 0;
  };
  const double before = loss();
  for (auto& [id, experts] : state->model.blocks.back().experts) {
    kernels::SetMemory(
        experts.weight.value, 0,
        GetParam().config.mixture.experts * 32 * 48 * kernels::DTypeBytes(experts.weight.dtype),
        state->stream);
  }
  if (GetParam().lora_rank == 0) {
    EXPECT_NE(loss(), before);
    return;
  }
  EXPECT_EQ(loss(), before);
  state->has_frozen_codes = false;
  EXPECT_NE(loss(), before);
}

INSTANTIATE_TEST_SUITE_P(Cases, Fp8ExpertsTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// A stack that is excluded stays as it is; each that is not changes what forward computes.
TEST(Fp8ExpertsPlanTest, ExcludedStacksStayAsTheyAre) {
  const ExpertsCase mixture = Cases().front();
  const auto loss = [&mixture](const PlanOptions& options) {
    const std::unique_ptr<State> state = Prepare(mixture, options);
    const auto stats = RunEvaluation(*state, MixtureBins(0));
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats.ok() ? stats->loss_sum : 0;
  };
  PlanOptions options = OptionsOf(mixture, Fp8Recipe::kTensorwise);
  const plan::Plan plan = MakePlan(mixture.config, options);
  std::vector<plan::LinearPlace> stacks;
  plan::VisitFp8Experts(plan, [&stacks](const auto& experts, int64_t layer) {
    stacks.push_back({layer, experts.id});
  });
  EXPECT_EQ(std::ssize(stacks), 2 * plan.model.num_layers);
  const double none = loss(OptionsOf(mixture, Fp8Recipe::kTensorwise, /*experts=*/false));
  options.fp8.excluded = stacks;
  EXPECT_EQ(loss(options), none);
  for (size_t left : {stacks.size() - 2, stacks.size() - 1}) {
    options.fp8.excluded = stacks;
    options.fp8.excluded.erase(options.fp8.excluded.begin() + static_cast<int64_t>(left));
    EXPECT_NE(loss(options), none) << left;
  }
}

}  // namespace
}  // namespace fp8_experts_test
}  // namespace coxswain::engine
