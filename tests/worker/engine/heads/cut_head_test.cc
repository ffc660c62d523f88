// A cut head computes what a head in chunks does, up to rounding.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace cut_head_test {
namespace {

// Both sum products of float32 in other orders.
constexpr double kLimit = 2e-5;

struct Twins {
  std::unique_ptr<State> chunks, cut;
};

class CutHeadTest : public testing::Test {
 protected:
  CutHeadTest() {
    config_.vocab_size = 1000;  // four tiles
    options_.init = "random";
    options_.sequence_len = 40;
    options_.micro_batch_bins = 2;
    options_.max_documents_per_bin = 3;
    options_.head_chunk = 24;
  }

  Twins Make() const {
    std::string doing;
    plan::Plan plan = MakePlan(config_, options_);
    auto chunks = MakeState(plan, 0, "", &doing);
    CutHead(&plan);
    auto cut = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(chunks.ok() && cut.ok()) << chunks.status() << cut.status();
    return {std::move(*chunks), std::move(*cut)};
  }
  BinBatch Bins() const {
    return RandomBins({{17, 9, 1}, {31, 3}, {8}, {40}, {5, 30}}, config_.vocab_size, 5);
  }
  static void ExpectSameStep(const Twins& twins, const TrainStep& step) {
    const double want = GradientStep(*twins.chunks, step), got = GradientStep(*twins.cut, step);
    EXPECT_NEAR(got, want, kLimit * (1 + std::abs(want)));
    for (size_t i = 0; i < twins.cut->plan.parameters.size(); ++i) {
      const model::Parameter& parameter = twins.cut->plan.parameters[i];
      if (!parameter.trainable()) continue;
      // True gradients of 0: of key biases, and of A behind a B of zeros.
      const std::vector<float> want_gradient = GradientOf(*twins.chunks, i);
      if (parameter.name.find("k_proj.bias") != std::string::npos) continue;
      if (want_gradient == std::vector<float>(want_gradient.size())) continue;
      EXPECT_LE(RelativeError(GradientOf(*twins.cut, i), want_gradient), kLimit) << parameter.name;
    }
  }

  model::ModelConfig config_ = SmallConfig();
  PlanOptions options_;
};

TEST_F(CutHeadTest, GivesTheGradientsOfChunksOverMicroSteps) {
  for (const bool tied : {true, false}) {
    config_.tie_embeddings = tied;
    ExpectSameStep(Make(), MakeStep(0, Bins()));
  }
}

TEST_F(CutHeadTest, GivesThoseOfAFrozenHeadAndOfASavedOne) {
  options_.lora_rank = 4;
  ExpectSameStep(Make(), MakeStep(0, Bins()));
  options_.modules_to_save = {"lm_head"};
  config_.tie_embeddings = false;
  ExpectSameStep(Make(), MakeStep(0, Bins()));
}

// The gradient of the head is cleared where no product writes it.
TEST_F(CutHeadTest, AMicroStepWithoutTargetsAddsNothing) {
  BinBatch bins = Bins();
  size_t token = 0;
  for (; token < 61; ++token) bins.targets[token] = 0;  // the first two bins
  config_.tie_embeddings = false;
  ExpectSameStep(Make(), MakeStep(0, bins));
  for (; token < bins.targets.size(); ++token) bins.targets[token] = 0;
  TrainStep none = MakeStep(1, bins);
  none.loss_denominator = 1;
  const Twins twins = Make();
  EXPECT_EQ(GradientStep(*twins.cut, none), 0.0);
  for (const float gradient : AllGradients(*twins.cut)) ASSERT_EQ(gradient, 0.0f);
}

TEST_F(CutHeadTest, EvaluatesAsChunksDo) {
  const Twins twins = Make();
  for (int64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(RunTrainStep(*twins.chunks, MakeStep(i, Bins(), /*learning_rate=*/5e-3)).ok());
  }
  for (size_t i = 0; i < twins.cut->plan.parameters.size(); ++i) {
    SetTrainedValues(*twins.cut, i, TrainedValues(*twins.chunks, i));
  }
  const auto want = RunEvaluation(*twins.chunks, Bins()), got = RunEvaluation(*twins.cut, Bins());
  ASSERT_TRUE(want.ok() && got.ok());
  EXPECT_GT(want->correct_targets, 0);
  EXPECT_EQ(got->correct_targets, want->correct_targets);
  EXPECT_NEAR(got->loss_sum, want->loss_sum, kLimit * want->loss_sum);
}

// Invariant engine-4.
TEST_F(CutHeadTest, RepeatsItsBits) {
  const Twins first = Make(), second = Make();
  GradientStep(*first.cut, MakeStep(0, Bins()));
  GradientStep(*second.cut, MakeStep(0, Bins()));
  EXPECT_EQ(AllGradients(*first.cut), AllGradients(*second.cut));
}

TEST_F(CutHeadTest, PrepareRefusesASmallPanelAndAnAdaptedHead) {
  plan::Plan plan = MakePlan(config_, options_);
  CutHead(&plan);
  plan.lm_head_panel_bytes -= 256;
  Finish(&plan);
  std::string doing;
  EXPECT_NE(MakeState(plan, 0, "", &doing).status().ToString().find("lm_head_panel_bytes is"),
            std::string::npos);
  options_.lora_rank = 4;
  options_.lora_targets = {"q_proj", "lm_head"};
  config_.tie_embeddings = false;
  plan = MakePlan(config_, options_);
  CutHead(&plan);
  EXPECT_NE(MakeState(plan, 0, "", &doing).status().ToString().find("has an adapter"),
            std::string::npos);
}

}  // namespace
}  // namespace cut_head_test
}  // namespace coxswain::engine
