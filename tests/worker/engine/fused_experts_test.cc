// Gate and up of experts with the gate behind them in one op have the bits of the two ops: in
// training at every recompute level, of the whole model and under adapters of attention, with
// experts that are dequantised a few at a time, and in answers. Invariant engine-5.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/worker/engine/support/expert_ranges.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace fused_experts_test {
namespace {

constexpr char kFusion[] = "grouped_gated_linear";

// The second has biases and the clamped gate. Extents are multiples of 8: a GPU has one launch for
// them in bfloat16.
class FusedExpertsTest : public testing::TestWithParam<const char*> {
 protected:
  static plan::Plan PlanOf(const PlanOptions& options) {
    model::ModelConfig config = SmallConfig();
    config.architecture = GetParam();
    config.qkv_bias = false;
    config.tie_embeddings = false;
    config.hidden_size = 96;
    config.head_dim = 16;
    config.mixture = {.experts = 6, .chosen = 2, .width = 72, .renormalise = true};
    config.mixture.router_bias = config.architecture == "GptOssForCausalLM";
    return MakePlan(config, options);
  }
  static PlanOptions Options(bool adapted) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    if (adapted) {
      options.lora_rank = 2;
      options.lora_targets = {"q_proj", "o_proj"};
    }
    return options;
  }

  static std::vector<StepStats> Train(const plan::Plan& plan) {
    std::vector<StepStats> all;
    const auto engine = Engine::Prepare(plan, 0, "");
    EXPECT_TRUE(engine.ok()) << engine.status();
    for (int64_t step = 0; engine.ok() && step < 2; ++step) {
      const auto stats =
          (*engine)->Train(MakeStep(step, BinsOfRanges(100 + static_cast<uint64_t>(step))));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (stats.ok()) all.push_back(*stats);
    }
    return all;
  }

  static plan::Plan WithoutFusion(plan::Plan plan) {
    const auto fusion = std::find(plan.fusions.begin(), plan.fusions.end(), kFusion);
    EXPECT_NE(fusion, plan.fusions.end());
    if (fusion != plan.fusions.end()) plan.fusions.erase(fusion);
    return plan;
  }
};

TEST_P(FusedExpertsTest, StepsHaveTheBitsOfTheTwoOps) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    if (std::string(dtype) == "bfloat16" && TestDevice() == "cpu") continue;
    for (const bool adapted : {false, true}) {
      PlanOptions options = Options(adapted);
      options.compute_dtype = dtype;
      for (const auto& [level, every] :
           {std::pair{"none", 1}, {"norm_swiglu", 1}, {"ffn", 1}, {"block", 1}, {"block", 2}}) {
        options.recompute = level;
        options.recompute_every = every;
        const plan::Plan plan = PlanOf(options);
        ExpectSameSteps(Train(plan), Train(WithoutFusion(plan)));
        ASSERT_FALSE(HasFailure()) << dtype << " " << level << " " << every << " " << adapted;
      }
    }
  }
}

TEST_P(FusedExpertsTest, AFewQuantisedExpertsAtATimeHaveThemToo) {
  PlanOptions options = Options(true);
  options.quantization = "nf4";
  options.recompute = "ffn";
  options.compute_dtype = TestDevice() == "cpu" ? "float32" : "bfloat16";
  const plan::Plan plan = PlanOf(options);
  const std::vector<StepStats> two = Train(WithoutFusion(AtOnce(plan, 0)));
  for (const int64_t experts : {0, 1, 4}) {
    ExpectSameSteps(Train(AtOnce(plan, experts)), two);
    ASSERT_FALSE(HasFailure()) << experts;
  }
}

TEST_P(FusedExpertsTest, AnswersAreThoseOfTheTwoOps) {
  std::vector<std::vector<int32_t>> answers;
  for (const bool fused : {true, false}) {
    const plan::Plan plan = OnlyGenerating(PlanOf(Options(true)), 2, 40);
    const auto engine = Engine::Prepare(fused ? plan : WithoutFusion(plan), 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    GenerateChunk chunk{.prompts = {{5, 6, 7}, {9}}};
    chunk.tokens = 20;
    const auto stats = (*engine)->Generate(chunk);
    ASSERT_TRUE(stats.ok()) << stats.status();
    for (const auto& text : stats->texts) answers.push_back(text.ids);
  }
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].size(), 20u);
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_EQ(answers[1], answers[3]);
}

INSTANTIATE_TEST_SUITE_P(Gates, FusedExpertsTest,
                         testing::Values("Qwen3MoeForCausalLM", "GptOssForCausalLM"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fused_experts_test
}  // namespace coxswain::engine
