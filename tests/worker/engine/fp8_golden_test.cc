// Gradients with products in FP8 against those that transformers computed in float64, tensor by
// tensor. Prints the cosines: the table in bench/results/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/plan/fp8_linears.h"
#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/fp8_history.h"

namespace coxswain::engine {
namespace fp8_golden_test {
namespace {

// A value in E4M3 is off by e of itself, uniform up to 2^-4: e^2 is 2^-8 / 3 on average, in E5M2
// four times that. The product of a value and a gradient has the sum of both, and up to 14 products
// lie between the loss and a gradient of three blocks: e^2 <= 14 (5 2^-8 / 3) = 0.09. A tensor of
// few elements or of small gradients is farther than the average: twice that.
constexpr double kMostError = 2 * 0.3;
constexpr double kMostLossError = 0.02;

struct Cosines {
  double least = 1, sum = 0;
  std::string farthest;
  int tensors = 0;
};

class Fp8GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = support::GoldenFolder(GetParam());
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(GetParam());
  }

  Cosines Compare(plan::Fp8Recipe recipe) {
    plan::Plan plan = golden_.plan;
    plan.fp8.recipe = recipe;
    plan.fp8.e4m3_gradients =
        recipe == plan::Fp8Recipe::kRowwise || recipe == plan::Fp8Recipe::kBlockwise;
    plan.fp8.experts = plan.model.mixture.experts > 0 && plan::ScalesWholeWeights(recipe);
    Finish(&plan);
    Cosines cosines;
    std::string doing;
    const auto state = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(state.ok()) << state.status();
    if (!state.ok()) return cosines;
    TrainStep step;
    step.bins = golden_.bins;
    step.loss_denominator = golden_.targets;
    double loss = GradientStep(**state, step) / static_cast<double>(golden_.targets);
    if (recipe == plan::Fp8Recipe::kDelayed) {
      // Scales that follow from the largest sizes of the pass before.
      MoveFp8History(plan, (*state)->buffers, (*state)->stream);
      loss = GradientStep(**state, step) / static_cast<double>(golden_.targets);
    }
    EXPECT_LE(std::abs(loss / golden_.loss - 1), kMostLossError) << plan::NameOf(recipe);
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      const std::string& name = plan.parameters[i].name;
      if (!plan.parameters[i].trainable()) continue;
      // The gradient of a bias of k is rounding alone: softmax does not see it.
      if (name.find("k_proj.bias") != std::string::npos) continue;
      const std::vector<float> got = GradientOf(**state, i), &want = golden_.gradients.at(name);
      EXPECT_LE(RelativeError(got, want), kMostError) << plan::NameOf(recipe) << " " << name;
      const double cosine = Cosine(got, want);
      ++cosines.tensors;
      cosines.sum += cosine;
      if (cosine < cosines.least) {
        cosines.least = cosine;
        cosines.farthest = name;
      }
    }
    return cosines;
  }

  GoldenCase golden_;
};

TEST_P(Fp8GoldenTest, GradientsAreNearThoseOfFloat64) {
  for (const plan::Fp8Recipe recipe : {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kRowwise,
                                       plan::Fp8Recipe::kBlockwise, plan::Fp8Recipe::kDelayed}) {
    const Cosines cosines = Compare(recipe);
    ASSERT_GT(cosines.tensors, 0);
    std::printf("%s %s: %d gradients, cosine %.4f on average, least %.4f (%s)\n",
                golden_.name.c_str(), plan::NameOf(recipe), cosines.tensors,
                cosines.sum / cosines.tensors, cosines.least, cosines.farthest.c_str());
  }
}

std::string NameOfCase(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Fp8GoldenTest,
                         testing::Values("qwen2_full", "llama_full", "qwen3_full", "mistral_full",
                                         "gemma2_full", "phi3_full", "olmo2_full",
                                         "starcoder2_full", "moe/mixtral_aux_full",
                                         "moe/qwen3_moe_expert_lora"),
                         NameOfCase);

}  // namespace
}  // namespace fp8_golden_test
}  // namespace coxswain::engine
