// Gradients of what the golden cases do not have (all biases, smoothing, z-loss, some adapters
// only) against differences of the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/files/safetensors/safetensors_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace gradient_test {
namespace {

class GradientTest : public testing::Test {
 protected:
  // A model with every bias, QK-norm, a window and a head of its own.
  static model::ModelConfig Config() {
    model::ModelConfig config = SmallConfig();
    config.architecture = "LlamaForCausalLM";
    config.tie_embeddings = false;
    config.output_bias = true;
    config.mlp_bias = true;
    config.qk_norm = true;
    config.layer_windows = {0, 7, 0};
    return config;
  }

  void Prepare(const PlanOptions& options) {
    PlanOptions with_files = options;
    with_files.model_path = folder_.path();
    with_files.sequence_len = 40;
    if (options.lora_rank > 0) with_files.init_from = folder_.path();
    plan::Plan plan = MakePlan(Config(), with_files);
    plan.label_smoothing = 0.1;
    plan.z_loss = 1e-2;
    ASSERT_TRUE(WriteSafetensors(folder_.path() + "/model.safetensors", BaseTensors(plan)).ok());
    ASSERT_TRUE(
        WriteSafetensors(folder_.path() + "/adapter_model.safetensors", AdapterTensors(plan)).ok());
    std::string doing;
    auto state = MakeState(plan, 0, "", &doing);
    ASSERT_TRUE(state.ok()) << state.status();
    state_ = std::move(*state);
  }

  // Mean loss; fills the gradient buffer.
  double Loss() {
    const TrainStep step = MakeStep(0, bins_);
    return GradientStep(*state_, step) / static_cast<double>(step.loss_denominator);
  }

  // Moves every trained tensor in turn along its own gradient. With g the gradient of norm |g|, the
  // difference quotient is |g| up to h^2 (third derivative) and to the loss's rounding, eps L / h.
  void ExpectGradientsAreSlopes() {
    Loss();
    std::vector<std::vector<float>> gradients;
    for (size_t i = 0; i < state_->plan.parameters.size(); ++i) {
      const bool trainable = state_->plan.parameters[i].trainable();
      gradients.push_back(trainable ? GradientOf(*state_, i) : std::vector<float>());
    }
    for (size_t i = 0; i < state_->plan.parameters.size(); ++i) {
      const model::Parameter& parameter = state_->plan.parameters[i];
      if (!parameter.trainable()) continue;
      const std::vector<float>& g = gradients[i];
      double squares = 0;
      for (double value : g) squares += value * value;
      const double norm = std::sqrt(squares);
      ASSERT_GT(norm, 0.0) << parameter.name;
      const std::vector<float> kept = TrainedValues(*state_, i);
      std::vector<float> moved = kept;
      const double h = 2e-3;
      double losses[2];
      for (int side = 0; side < 2; ++side) {
        const double step = (side == 0 ? h : -h) / norm;
        for (size_t j = 0; j < kept.size(); ++j) {
          moved[j] = static_cast<float>(kept[j] + step * static_cast<double>(g[j]));
        }
        SetTrainedValues(*state_, i, moved);
        losses[side] = Loss();
      }
      SetTrainedValues(*state_, i, kept);
      const double rounding = 1.2e-7 * losses[0] / h;
      EXPECT_NEAR((losses[0] - losses[1]) / (2 * h), norm, 1e-3 * norm + rounding)
          << parameter.name;
    }
  }

  const support::ScratchFolder folder_;
  const BinBatch bins_ = RandomBins({{17, 9, 1}, {31, 3}}, 131, 9);
  std::unique_ptr<State> state_;
};

TEST_F(GradientTest, FullFineTuning) {
  Prepare({});
  ExpectGradientsAreSlopes();
}

TEST_F(GradientTest, AdaptersOfSomeLayersOnly) {
  PlanOptions options;
  options.lora_rank = 3;
  options.lora_targets = {"model.layers.0.self_attn.q_proj", "model.layers.2.self_attn.v_proj",
                          "model.layers.2.mlp.up_proj"};
  options.recompute = "ffn";
  Prepare(options);
  ExpectGradientsAreSlopes();
}

TEST_F(GradientTest, AdaptersOfSomeLinearsOnly) {
  PlanOptions options;
  options.lora_rank = 3;
  options.lora_targets = {"q_proj", "v_proj", "up_proj", "o_proj"};
  Prepare(options);
  ExpectGradientsAreSlopes();
}

TEST_F(GradientTest, DropoutIsTheSameForwardAndBackward) {
  PlanOptions options;
  options.lora_rank = 3;
  options.dropout = 0.3;
  Prepare(options);
  ExpectGradientsAreSlopes();
}

TEST_F(GradientTest, EvaluationDropsNothing) {
  PlanOptions options;
  options.lora_rank = 3;
  double evaluated[2], trained[2];
  for (int i = 0; i < 2; ++i) {
    options.dropout = 0.3 * i;
    Prepare(options);
    evaluated[i] = RunEvaluation(*state_, bins_)->loss_sum;
    trained[i] = Loss();
  }
  EXPECT_EQ(evaluated[0], evaluated[1]);
  EXPECT_NE(trained[0], trained[1]);
}

}  // namespace
}  // namespace gradient_test
}  // namespace coxswain::engine
