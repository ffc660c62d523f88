#include "common/plan/fusions/fused_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"

namespace coxswain::plan {
namespace {

// A model of two blocks.
Plan PlanOf(const std::string& architecture, const std::vector<std::string>& adapted = {}) {
  Plan plan;
  model::ModelConfig& config = plan.model;
  config.architecture = architecture;
  config.vocab_size = 64;
  config.hidden_size = 16;
  config.intermediate_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.layer_windows = {0, 0};
  plan.architecture = model::ArchitectureOf(config);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  if (!adapted.empty()) {
    plan.parameters = *model::WithLora(plan.parameters, config, {2, adapted, /*dora=*/false});
  }
  plan.fusions = ApplicableFusions(plan);
  return plan;
}

// After a change of its config.
void BuildAgain(Plan* plan) {
  plan->architecture = model::ArchitectureOf(plan->model);
  plan->fusions = ApplicableFusions(*plan);
}

template <typename Op>
int64_t Count(const std::vector<Ops>& lists) {
  int64_t count = 0;
  for (const Ops& ops : lists) {
    count += std::count_if(ops.begin(), ops.end(),
                           [](const auto& op) { return std::holds_alternative<Op>(op); });
  }
  return count;
}
template <typename Op>
int64_t CountForward(const Plan& plan) {
  return Count<Op>(OpListsOf(plan).forward);
}
template <typename Op>
int64_t CountBackward(const Plan& plan) {
  return Count<Op>(OpListsOf(plan).backward);
}

TEST(FusedOpsTest, OutputAndDownAddToTheStream) {
  for (const char* architecture : {"LlamaForCausalLM", "Starcoder2ForCausalLM"}) {
    const Plan plan = PlanOf(architecture);
    EXPECT_EQ(CountForward<model::LinearAddOp>(plan), 4) << architecture;
    EXPECT_EQ(CountForward<model::AddOp>(plan), 0) << architecture;
    EXPECT_EQ(CountForward<model::AddNormOp>(plan), 0) << architecture;
  }
}

TEST(FusedOpsTest, TheNormAddsWhatAnAdaptedLinearPutsOut) {
  const Plan down = PlanOf("LlamaForCausalLM", {"down_proj"});
  EXPECT_EQ(CountForward<model::LinearAddOp>(down), 2);
  EXPECT_EQ(CountForward<model::AddNormOp>(down), 2);
  const Plan all = PlanOf("LlamaForCausalLM", {"all-linear"});
  EXPECT_EQ(CountForward<model::LinearAddOp>(all), 0);
  EXPECT_EQ(CountForward<model::AddNormOp>(all), 4);
}

TEST(FusedOpsTest, TheProductOfQkvTurns) {
  for (const char* architecture : {"LlamaForCausalLM", "Phi3ForCausalLM", "Gemma2ForCausalLM",
                                   "CohereForCausalLM", "Starcoder2ForCausalLM"}) {
    const Plan plan = PlanOf(architecture);
    EXPECT_EQ(CountForward<model::LinearRotateOp>(plan), 2) << architecture;
    EXPECT_EQ(CountForward<model::RotateOp>(plan), 0) << architecture;
    EXPECT_EQ(plan.fusions.front(), "linear_rotate") << architecture;
  }
}

TEST(FusedOpsTest, AnAdaptedOutputTurnsByItself) {
  for (const char* target : {"q_proj", "v_proj"}) {
    const Plan plan = PlanOf("LlamaForCausalLM", {target});
    EXPECT_EQ(CountForward<model::LinearRotateOp>(plan), 0) << target;
    EXPECT_EQ(CountForward<model::RotateOp>(plan), 2) << target;
  }
  EXPECT_EQ(CountForward<model::LinearRotateOp>(PlanOf("LlamaForCausalLM", {"o_proj"})), 2);
}

// q and k are normalised between product and rotation.
TEST(FusedOpsTest, NormalisedHeadsTurnByThemselves) {
  for (const char* architecture : {"LlamaForCausalLM", "Olmo2ForCausalLM", "Gemma3ForCausalLM"}) {
    Plan plan = PlanOf(architecture);
    plan.model.qk_norm = true;
    BuildAgain(&plan);
    EXPECT_EQ(CountForward<model::LinearRotateOp>(plan), 0) << architecture;
    EXPECT_EQ(CountForward<model::RotateOp>(plan), 2) << architecture;
  }
}

TEST(FusedOpsTest, WhatDoesNotTurnHasNoPair) {
  Plan plan = PlanOf("Cohere2ForCausalLM");
  plan.model.unrotated_layers = {1};
  BuildAgain(&plan);
  EXPECT_EQ(CountForward<model::LinearRotateOp>(plan), 1);
  EXPECT_EQ(CountForward<model::RotateOp>(plan), 0);
  EXPECT_GE(CountForward<model::LinearOp>(plan), 1);
  EXPECT_EQ(CountBackward<model::RotatedAttentionOp>(plan), 1);
  EXPECT_EQ(CountBackward<model::AttentionOp>(plan), 1);
}

TEST(FusedOpsTest, AttentionsGradientTurnsBack) {
  for (const char* architecture : {"LlamaForCausalLM", "Olmo2ForCausalLM", "Gemma3ForCausalLM",
                                   "CohereForCausalLM", "Starcoder2ForCausalLM"}) {
    for (const bool adapted : {false, true}) {
      Plan plan = PlanOf(architecture, adapted ? std::vector<std::string>{"all-linear"}
                                               : std::vector<std::string>{});
      plan.model.qk_norm = std::string(architecture) != "Starcoder2ForCausalLM";
      BuildAgain(&plan);
      EXPECT_EQ(CountBackward<model::RotatedAttentionOp>(plan), 2) << architecture;
      EXPECT_EQ(CountBackward<model::AttentionOp>(plan), 0) << architecture;
      EXPECT_EQ(CountBackward<model::RotateOp>(plan), 0) << architecture;
      EXPECT_EQ(CountForward<model::AttentionOp>(plan), 2) << architecture;
      EXPECT_EQ(plan.fusions.back(), "attention_rotate") << architecture;
    }
  }
}

// A mixture of two blocks.
Plan MixtureOf(const std::string& architecture) {
  Plan plan = PlanOf("LlamaForCausalLM");
  plan.model.architecture = architecture;
  plan.model.mixture = {.experts = 4, .chosen = 2, .width = 8, .renormalise = true};
  plan.architecture = model::ArchitectureOf(plan.model);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  plan.fusions = ApplicableFusions(plan);
  return plan;
}

TEST(FusedOpsTest, TheProductOfExpertsHasItsGate) {
  for (const char* architecture : {"Qwen3MoeForCausalLM", "GptOssForCausalLM"}) {
    const Plan plan = MixtureOf(architecture);
    EXPECT_EQ(CountForward<model::GroupedGatedLinearOp>(plan), 2) << architecture;
    EXPECT_EQ(CountForward<model::GroupedLinearOp>(plan), 2) << architecture;  // down
    EXPECT_EQ(CountForward<model::GateOp>(plan), 0) << architecture;
    EXPECT_EQ(CountBackward<model::GroupedLinearOp>(plan), 4) << architecture;
    EXPECT_EQ(CountBackward<model::GateOp>(plan), 2) << architecture;
  }
}

// An adapter adds to gate and up before the gate reads them.
TEST(FusedOpsTest, AnAdaptedProductOfExpertsKeepsItsGateApart) {
  const Plan plain = MixtureOf("Qwen3MoeForCausalLM");
  const auto adapted = [&plain](const std::string& stack) {
    Plan plan = plain;
    plan.parameters =
        *model::WithLora(plan.parameters, plan.model,
                         {.rank = 2, .targets = {}, .parameters = {"mlp.experts." + stack}});
    plan.fusions = ApplicableFusions(plan);
    return plan;
  };
  const Plan gate_up = adapted("gate_up_proj"), down = adapted("down_proj");
  EXPECT_EQ(CountForward<model::GroupedGatedLinearOp>(gate_up), 0);
  EXPECT_EQ(CountForward<model::GateOp>(gate_up), 2);
  EXPECT_EQ(CountForward<model::GroupedGatedLinearOp>(down), 2);
}

// A norm stands between linear and add, or two linears add to one branch.
TEST(FusedOpsTest, OtherBlocksKeepTheirAdds) {
  for (const char* architecture : {"Gemma3ForCausalLM", "Olmo2ForCausalLM", "CohereForCausalLM"}) {
    const Plan plan = PlanOf(architecture);
    EXPECT_EQ(CountForward<model::LinearAddOp>(plan), 0) << architecture;
    EXPECT_GT(CountForward<model::AddOp>(plan) + CountForward<model::AddNormOp>(plan), 0)
        << architecture;
  }
}

}  // namespace
}  // namespace coxswain::plan
