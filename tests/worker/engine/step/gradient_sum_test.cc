// A step of many micro-steps whose gradients are kept in bfloat16, against float32 gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/gradient_sum.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/forward_backward.h"

namespace coxswain::engine {
namespace many_micro_steps_test {
namespace {

using plan::GradientSum;
using Values = std::vector<float>;

constexpr int kMicroSteps = 128;

struct Case {
  std::string name;
  model::ModelConfig config;
  bool cut = false;
};

// Extents that attention in bfloat16 takes; an untied embedding and head, which are matrices too.
Case Extended(std::string name, model::ModelConfig config, bool cut = false) {
  config.tie_embeddings = false;
  config.head_dim = 16;
  config.hidden_size = 64;
  if (config.mixture.experts > 0) config.mixture.width = 32;
  if (config.mixture.shared_width > 0) config.mixture.shared_width = 32;
  return {std::move(name), std::move(config), cut};
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {Extended("dense", SmallConfig()),
                             Extended("cut", SmallConfig(), /*cut=*/true)};
  for (const BlockKind& kind : BlockKinds()) {
    if (kind.name == std::string("SharedExperts"))
      cases.push_back(Extended(kind.name, kind.config));
  }
  return cases;
}

plan::Plan PlanOf(const Case& of, const std::string& gradient, GradientSum sum) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.head_chunk = 24;
  options.compute_dtype = "bfloat16";
  options.gradient_dtype = gradient;
  options.gradient_sum = sum;
  plan::Plan plan = MakePlan(of.config, options);
  if (of.cut) CutHead(&plan);
  return plan;
}

BinBatch ManyBins(int64_t vocab) {
  std::vector<std::vector<int32_t>> lengths(kMicroSteps, {11, 20, 5});
  return RandomBins(lengths, vocab, 9);
}

std::unique_ptr<State> Prepare(const plan::Plan& plan, bool graphs = true) {
  std::string doing;
  auto state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return nullptr;
  if (!graphs) (*state)->graphs.Disable();
  return *std::move(state);
}

// Of the parameters that are summed in bfloat16 where `plan` says so.
Values Gradients(const State& state, const plan::Plan& summed) {
  Values all;
  for (size_t i = 0; i < summed.parameters.size(); ++i) {
    if (!plan::IsSummedInBfloat16(summed, summed.parameters[i])) continue;
    const Values one = GradientOf(state, i);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

double Distance(const Values& values, const Values& from) {
  EXPECT_EQ(values.size(), from.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(static_cast<double>(values[i]) - from[i], 2);
    norm += std::pow(static_cast<double>(from[i]), 2);
  }
  return std::sqrt(difference / norm);
}

struct Trained {
  Values gradients, weights;
};

Trained TrainOneStep(const Case& of, const std::string& gradient, GradientSum sum,
                     bool graphs = true) {
  const auto state = Prepare(PlanOf(of, gradient, sum), graphs);
  if (state == nullptr) return {};
  const TrainStep step = MakeStep(0, ManyBins(of.config.vocab_size));
  EXPECT_TRUE(RunTrainStep(*state, step).ok());
  Trained run{Gradients(*state, PlanOf(of, "bfloat16", sum)), {}};
  for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
    const Values one = TrainedValues(*state, i);
    run.weights.insert(run.weights.end(), one.begin(), one.end());
  }
  return run;
}

class ManyMicroStepsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (TestDevice() == "cpu") GTEST_SKIP() << "the CPU keeps gradients in float32";
  }
};

// Compensated: a rounding of the end, 2^-8 at most, beside what another order of a product in
// float32 gives. To nearest 128 terms are rounded with their partial sums. Stochastically each of
// them, of the head two a micro-step, adds a rounding independent of the others. The first update
// of Adam is a step by the sign of each gradient: weights differ where a sign does.
TEST_F(ManyMicroStepsTest, CompensatedGradientsAndWeightsAreThoseOfFloat32) {
  for (const Case& of : Cases()) {
    const Trained float32 = TrainOneStep(of, "float32", GradientSum::kNearest);
    const Trained nearest = TrainOneStep(of, "bfloat16", GradientSum::kNearest);
    const Trained stochastic = TrainOneStep(of, "bfloat16", GradientSum::kStochastic);
    const Trained compensated = TrainOneStep(of, "bfloat16", GradientSum::kCompensated);
    const double off = Distance(compensated.gradients, float32.gradients);
    EXPECT_LT(off, 0x1p-8) << of.name;
    EXPECT_GT(Distance(nearest.gradients, float32.gradients), 3 * off) << of.name;
    EXPECT_LT(Distance(stochastic.gradients, float32.gradients),
              0x1p-8 * std::sqrt(2 * kMicroSteps))
        << of.name;
    EXPECT_LT(Distance(compensated.weights, float32.weights),
              Distance(nearest.weights, float32.weights))
        << of.name;
  }
}

// Invariant engine-4.
TEST_F(ManyMicroStepsTest, RunsAndGraphsGiveTheSameBits) {
  for (const Case& of : Cases()) {
    for (const GradientSum sum : {GradientSum::kStochastic, GradientSum::kCompensated}) {
      const Trained first = TrainOneStep(of, "bfloat16", sum);
      EXPECT_EQ(TrainOneStep(of, "bfloat16", sum).gradients, first.gradients) << of.name;
      EXPECT_EQ(TrainOneStep(of, "bfloat16", sum, /*graphs=*/false).gradients, first.gradients)
          << of.name;
    }
  }
}

// A step that comes in several commands, after another one, which leaves companions behind: those
// of a gang that starts again at this step are zero.
TEST_F(ManyMicroStepsTest, BatchesOfAStepGiveTheBitsOfOne) {
  for (const Case& of : Cases()) {
    for (const GradientSum sum : {GradientSum::kStochastic, GradientSum::kCompensated}) {
      const plan::Plan plan = PlanOf(of, "bfloat16", sum);
      const auto whole = Prepare(plan), parts = Prepare(plan);
      ASSERT_NE(whole, nullptr);
      ASSERT_NE(parts, nullptr);
      const TrainStep step = MakeStep(4, ManyBins(of.config.vocab_size));
      GradientStep(*whole, step);
      for (const char byte : {0x55, 0x7f}) {
        kernels::SetMemory(parts->buffers.gradients, byte, parts->layout.map.gradients,
                           parts->stream);
        kernels::SetMemory(parts->buffers.gradient_companions, byte, parts->layout.map.companions,
                           parts->stream);
        parts->pending = {};
        GradientBatch batch = step;
        const size_t bins = step.bins.bin_ids.size(), cut = bins / 3;
        batch.last = false;
        batch.bins = Slice(step.bins, 0, cut);
        ASSERT_TRUE(RunForwardBackward(*parts, batch).ok());
        batch.last = true;
        batch.bins = Slice(step.bins, cut, bins - cut);
        ASSERT_TRUE(RunForwardBackward(*parts, batch).ok());
        EXPECT_EQ(AllGradients(*parts), AllGradients(*whole)) << of.name;
      }
    }
  }
}

}  // namespace
}  // namespace many_micro_steps_test
}  // namespace coxswain::engine
