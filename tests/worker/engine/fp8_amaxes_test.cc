// The amax of an operand in FP8 that its producer finds is what the operand's own kernel would
// find: steps have the same bits with it and without.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/buffers/fp8_amaxes.h"
#include "common/plan/fp8_linears.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/fp8_amaxes.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace fp8_amaxes_test {
namespace {

using Values = std::vector<float>;

bool SameBits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

model::ModelConfig Config() {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 144;
  return config;
}

PlanOptions Options(int64_t lora_rank = 0) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.micro_batch_bins = 2;
  options.max_documents_per_bin = 3;
  options.lora_rank = lora_rank;
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  options.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  return options;
}

// `finds`: every operand looks for its amax itself.
std::unique_ptr<State> StateOf(const plan::Plan& plan, bool finds) {
  std::string doing;
  auto state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return nullptr;
  if (finds) {
    EXPECT_GT(ForgetKnownAmaxes(**state), 0);
  }
  return std::move(*state);
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

struct Run {
  std::vector<double> losses, norms;
  Values values;
};

// Other documents in each step, of one and of several micro-steps; an evaluation between them.
Run Train(State& state) {
  Run run;
  for (int64_t step = 0; step < 3; ++step) {
    const BinBatch bins =
        step == 1 ? RandomBins({{40}, {31}, {7}}, Config().vocab_size, 5)
                  : RandomBins({{17, 9, 1}, {31, 3}, {8}, {22}, {6}}, Config().vocab_size, 6);
    const auto stats = RunTrainStep(state, MakeStep(step, bins));
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return run;
    EXPECT_TRUE(stats->applied);
    run.losses.push_back(stats->loss_sum);
    run.norms.push_back(stats->grad_norm);
    const auto evaluated = RunEvaluation(state, bins);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    if (evaluated.ok()) run.losses.push_back(evaluated->loss_sum);
  }
  run.values = AllTrained(state);
  return run;
}

void ExpectSame(const PlanOptions& options) {
  const plan::Plan plan = MakePlan(Config(), options);
  const std::unique_ptr<State> found = StateOf(plan, true);
  ASSERT_NE(found, nullptr);
  found->graphs.Disable();
  const Run want = Train(*found);
  for (const bool graphs : {false, true}) {
    if (graphs && TestDevice() == "cpu") continue;  // launches, again
    const std::unique_ptr<State> known = StateOf(plan, false);
    ASSERT_NE(known, nullptr);
    if (!graphs) known->graphs.Disable();
    const Run got = Train(*known);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.norms, want.norms);
    EXPECT_TRUE(SameBits(got.values, want.values));
  }
}

TEST(KnownAmaxesTest, StepsHaveTheSameBits) {
  for (const int64_t rank : {0, 4}) {
    for (const bool kept : {true, false}) {
      for (const char* level : {"none", "norm_swiglu", "ffn", "block"}) {
        if (rank > 0 && kept != (std::string(level) == "none")) continue;
        SCOPED_TRACE(testing::Message() << "rank " << rank << ", " << level << ", kept " << kept);
        PlanOptions options = Options(rank);
        options.fp8.keeps_activations = kept;
        options.fp8.keeps_weights = !kept;
        options.recompute = level;
        options.recompute_every = std::string(level) == "block" ? 2 : 1;
        ExpectSame(options);
      }
    }
  }
}

// Kept codes need none, nor do weights with several scales.
TEST(KnownAmaxesTest, WeightsReadInPlaceRememberTheirs) {
  for (const plan::Fp8Recipe recipe :
       {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kDelayed, plan::Fp8Recipe::kRowwise}) {
    PlanOptions options = Options();
    options.fp8.recipe = recipe;
    int64_t linears = 0;
    const plan::Plan read = MakePlan(Config(), options);
    plan::VisitFp8Linears(read, [&](const auto&, int64_t) { ++linears; });
    EXPECT_GT(linears, 0);
    const bool remembered = recipe != plan::Fp8Recipe::kRowwise;
    EXPECT_EQ(plan::Fp8AmaxesOf(read).weights, remembered ? linears : 0);
    options.fp8.keeps_weights = true;
    EXPECT_EQ(plan::Fp8AmaxesOf(MakePlan(Config(), options)).weights, 0);
  }
}

TEST(KnownAmaxesTest, DoraDropoutAndExcludedLinearsHaveTheSameBits) {
  PlanOptions options = Options(4);
  options.dora = true;
  ExpectSame(options);
  options = Options(4);
  options.dropout = 0.3;
  ExpectSame(options);
  // One of each kind of linear, so that products with gates are fused or not.
  const plan::Plan plan = MakePlan(Config(), Options());
  plan::VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    if (layer != 1) return;
    PlanOptions without = Options();
    without.fp8.excluded = {{layer, linear.id}};
    SCOPED_TRACE(linear.name);
    ExpectSame(without);
  });
}

// Each is that of the sweep: above zero, and none left from a larger one before.
TEST(KnownAmaxesTest, SweepsForgetThoseBefore) {
  const plan::Plan plan = MakePlan(Config(), Options());
  const std::unique_ptr<State> state = StateOf(plan, false), fresh = StateOf(plan, false);
  ASSERT_TRUE(state != nullptr && fresh != nullptr);
  const plan::Fp8Amaxes amaxes = plan::Fp8AmaxesOf(plan);
  const int64_t count = amaxes.values + amaxes.gradients;
  const auto read = [&](const State& of) {
    return ReadFloats(of.buffers.fp8_amaxes, kernels::DType::kFloat32, count);
  };
  WriteFloats(Values(static_cast<size_t>(count), 1e30f), state->buffers.fp8_amaxes,
              kernels::DType::kFloat32);
  const TrainStep step = MakeStep(0, RandomBins({{17, 9, 1}}, Config().vocab_size, 6));
  GradientStep(*state, step);
  GradientStep(*fresh, step);
  EXPECT_EQ(read(*state), read(*fresh));
  for (const float amax : read(*state)) {
    EXPECT_GT(amax, 0.0f);
    EXPECT_LT(amax, 1e29f);
  }
}

// It is the scale of the first norm's linear that becomes infinite; the update is skipped, and
// later ones are as if it had not been.
TEST(KnownAmaxesTest, AnInfiniteOperandSkipsTheSameStep) {
  const plan::Plan plan = MakePlan(Config(), Options());
  Values values[2];
  for (const bool finds : {true, false}) {
    const std::unique_ptr<State> state = StateOf(plan, finds);
    ASSERT_NE(state, nullptr);
    if (finds) state->graphs.Disable();
    size_t norm = 0;
    while (plan.parameters[norm].name != "model.layers.0.input_layernorm.weight") ++norm;
    const Values weight = TrainedValues(*state, norm);
    Values infinite = weight;
    infinite[3] = std::numeric_limits<float>::infinity();
    SetTrainedValues(*state, norm, infinite);
    const TrainStep step = MakeStep(0, RandomBins({{17, 9}, {31}}, Config().vocab_size, 6));
    const auto skipped = RunTrainStep(*state, step);
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    EXPECT_FALSE(skipped->applied);
    EXPECT_FALSE(std::isfinite(skipped->grad_norm));
    SetTrainedValues(*state, norm, weight);
    const auto applied = RunTrainStep(*state, MakeStep(1, step.bins));
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_TRUE(applied->applied);
    values[finds] = AllTrained(*state);
  }
  EXPECT_TRUE(SameBits(values[0], values[1]));
}

class KnownAmaxesOfBlocksTest : public testing::TestWithParam<BlockKind> {
 protected:
  static void ExpectSameGradients(const plan::Plan& plan) {
    Values gradients[2];
    double losses[2] = {};
    for (const bool finds : {true, false}) {
      const std::unique_ptr<State> state = StateOf(plan, finds);
      ASSERT_NE(state, nullptr);
      if (finds) state->graphs.Disable();
      losses[finds] = GradientStep(
          *state, MakeStep(0, RandomBins({{17, 9, 1}, {31, 3}, {40}}, plan.model.vocab_size, 6)));
      gradients[finds] = AllGradients(*state);
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_TRUE(SameBits(gradients[0], gradients[1]));
  }
};

TEST_P(KnownAmaxesOfBlocksTest, GradientsHaveTheSameBits) {
  for (const int64_t rank : {0, 4}) {
    for (const char* level : {"none", "ffn"}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", " << level);
      PlanOptions options = Options(rank);
      options.recompute = level;
      ExpectSameGradients(MakePlan(GetParam().config, options));
    }
  }
  plan::Plan plan = MakePlan(GetParam().config, Options());
  plan.fusions.clear();
  Finish(&plan);
  ExpectSameGradients(plan);
}

INSTANTIATE_TEST_SUITE_P(Blocks, KnownAmaxesOfBlocksTest, testing::ValuesIn(BlockKindsForFp8()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fp8_amaxes_test
}  // namespace coxswain::engine
