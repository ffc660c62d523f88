// Routers among the targets of an adapter. Source: peft 0.21, which was asked for each family what
// its spellings reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "common/model/read/read_model_config.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/planner/adapters/target_modules.h"
#include "controller/planner/model/parameter_groups.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace router_targets_test {
namespace {

using Names = std::vector<std::string>;

std::string Mixture(const std::string& architecture) {
  return absl::StrCat(R"({"architectures": [")", architecture, R"("], "hidden_size": 32,
      "intermediate_size": 32, "moe_intermediate_size": 8, "num_experts": 4, "num_local_experts": 4,
      "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 128})");
}

class RouterTargetsTest : public testing::Test {
 protected:
  void Use(const std::string& architecture) {
    folder_.Write("config.json", Mixture(architecture));
    model_ = *model::ReadModelConfig(folder_.path());
    job_ = SmallJob();
    job_.lora.r = 4;
    job_.lora.dropout = 0;
    job_.lora.target_modules = {"q_proj"};
  }
  // The layers whose router is adapted.
  std::vector<int32_t> Adapted() {
    plan::Plan plan;
    plan.model = model_;
    const absl::Status status = MakeParameters(job_, &plan);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<int32_t> layers;
    for (const model::Parameter& parameter : plan.parameters) {
      if (parameter.kind != model::Kind::kRouter || !model::IsAdapter(parameter)) continue;
      EXPECT_TRUE(parameter.trainable()) << parameter.name;
      if (model::IsLoraA(parameter)) layers.push_back(parameter.layer);
    }
    return layers;
  }
  absl::Status Refusal() {
    plan::Plan plan;
    plan.model = model_;
    return MakeParameters(job_, &plan);
  }

  const support::ScratchFolder folder_;
  config::JobSpec job_;
  model::ModelConfig model_;
};

void ExpectRefusal(const absl::Status& status, const std::string& why) {
  EXPECT_FALSE(status.ok()) << why;
  EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
}

const std::vector<int32_t> kAll = {0, 1, 2};

TEST_F(RouterTargetsTest, AnyOfItsSpellingsReachesTheRouter) {
  for (const auto& [architecture, modules, parameters] :
       std::vector<std::tuple<std::string, Names, Names>>{
           {"Qwen3MoeForCausalLM", {"q_proj", "gate"}, {}},
           {"Qwen3MoeForCausalLM", {"mlp.gate"}, {}},
           {"Qwen3MoeForCausalLM", {R"(.*\.(q_proj|gate))"}, {}},
           {"Qwen3MoeForCausalLM", {}, {"mlp.gate.weight"}},
           {"Qwen3MoeForCausalLM", {"all-linear"}, {"gate.weight", "mlp.experts.down_proj"}},
           {"Qwen2MoeForCausalLM", {"gate"}, {}},
           {"MixtralForCausalLM", {"gate"}, {}},
           {"MixtralForCausalLM", {"block_sparse_moe.gate"}, {}},
           {"MixtralForCausalLM", {"v_proj"}, {"mlp.gate.weight"}},
           {"MixtralForCausalLM", {"v_proj"}, {"block_sparse_moe.gate.weight"}},
           {"GptOssForCausalLM", {"router"}, {}},
           {"GptOssForCausalLM", {}, {"router.weight"}}}) {
    Use(architecture);
    job_.lora.target_modules = modules;
    job_.lora.target_parameters = parameters;
    EXPECT_EQ(Adapted(), kAll) << architecture << " " << testing::PrintToString(modules)
                               << testing::PrintToString(parameters);
  }
}

TEST_F(RouterTargetsTest, ALayerMayBeNamedAndAllLinearNamesNone) {
  Use("MixtralForCausalLM");
  job_.lora.target_modules = {R"(.*\.[02]\..*gate)", "q_proj"};
  EXPECT_EQ(Adapted(), (std::vector<int32_t>{0, 2}));
  job_.lora.target_modules = {"q_proj", "1.mlp.gate"};
  EXPECT_EQ(Adapted(), std::vector<int32_t>{1});
  job_.lora.target_modules = {"all-linear"};
  EXPECT_TRUE(Adapted().empty());
  // The gate of a shared expert is a linear, and another name.
  Use("Qwen2MoeForCausalLM");
  job_.lora.target_modules = {"shared_expert_gate"};
  EXPECT_TRUE(Adapted().empty());
}

TEST_F(RouterTargetsTest, WhatARouterCannotBeIsRefusedByName) {
  Use("Qwen3MoeForCausalLM");
  job_.lora.target_modules = {"q_proj", "gate"};
  job_.lora.dropout = 0.25;
  ExpectRefusal(Refusal(),
                "lora.target_modules: \"gate\" is a router, whose adapter has no dropout");
  job_.lora.dropout = 0;
  job_.lora.use_dora = true;
  ExpectRefusal(Refusal(), "\"gate\" is a router, whose adapter has no DoRA");
  job_.lora.target_modules = {"q_proj"};
  job_.lora.target_parameters = {"mlp.gate.weight"};
  ExpectRefusal(Refusal(),
                "lora.target_parameters: \"mlp.gate.weight\" is a router, whose adapter");
  job_.lora.use_dora = false;
  job_.moe.trains_router = true;
  ExpectRefusal(Refusal(), "which moe.router: trained or lora.modules_to_save trains in full");
  job_.moe.trains_router = false;
  EXPECT_EQ(Adapted(), kAll);
  job_.lora.target_parameters = {"mlp.gate"};
  ExpectRefusal(Refusal(),
                "\"mlp.gate\" names no stack of experts and no router; known: mlp.gate.");
  job_.lora.target_parameters = {};
  job_.lora.target_modules = {"router"};
  ExpectRefusal(Refusal(), "unknown module \"router\"");
}

TEST_F(RouterTargetsTest, StacksOfGateAndUpMayHaveARankOfTheirOwn) {
  Use("Qwen3MoeForCausalLM");
  job_.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  job_.lora.gate_up_r = 8;
  plan::Plan plan;
  plan.model = model_;
  ASSERT_TRUE(MakeParameters(job_, &plan).ok());
  const auto at = [&plan](const std::string& name) {
    const auto found =
        std::find_if(plan.parameters.begin(), plan.parameters.end(), [&name](const auto& p) {
          return p.name == "base_model.model.model.layers.1.mlp.experts." + name;
        });
    return std::pair(found->rows, found->cols);
  };
  using Shape = std::pair<int64_t, int64_t>;
  EXPECT_EQ(at("base_layer.lora_A.weight"), Shape(4 * 8, 32));
  EXPECT_EQ(at("base_layer.lora_B.weight"), Shape(4 * 2 * 8, 8));
  EXPECT_EQ(at("lora_A.weight"), Shape(4 * 4, 8));
  EXPECT_EQ(at("lora_B.weight"), Shape(4 * 32, 4));
  job_.export_by_expert = true;
  ExpectRefusal(Refusal(), "per_expert has one rank, and lora.gate_up_r is 8 beside lora.r 4");
  job_.export_by_expert = false;
  job_.lora.target_parameters = {"mlp.experts.down_proj"};
  ExpectRefusal(Refusal(), "lora.gate_up_r is 8, and no stack of gate and up is adapted");
}

// What peft writes for target_modules: [q_proj, gate] of such a model.
constexpr char kAdapter[] =
    R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "target_parameters": ["gate.weight"]})";

TEST_F(RouterTargetsTest, AnAdapterOfRoutersIsTakenOver) {
  Use("Qwen3MoeForCausalLM");
  folder_.Write("adapter_config.json", kAdapter);
  const std::string yaml =
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: t}\nspec:\n"
      "  base_model: .\n  adapter: lora\n  datasets: [{path: ./d.jsonl}]\n"
      "  lora: {init_from: .}\n";
  const auto job = TakeOverAdapter(config::ParseJob(yaml, folder_.path()), yaml, folder_.path());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.target_modules, Names{"q_proj"});
  EXPECT_EQ(job->spec.lora.target_parameters, Names{"gate.weight"});
}

TEST_F(RouterTargetsTest, TheSameRoutersPassHoweverTheyAreNamed) {
  Use("Qwen3MoeForCausalLM");
  folder_.Write("adapter_config.json", kAdapter);
  job_.adapter = config::Adapter::kLora;
  job_.lora.alpha = 8;
  job_.lora.init_from = folder_.path();
  for (const auto& [modules, parameters, same] : std::vector<std::tuple<Names, Names, bool>>{
           {{"q_proj", "gate"}, {}, true},
           {{"q_proj", "mlp.gate"}, {"mlp.gate.weight"}, true},
           {{"q_proj"}, {"mlp.gate.weight"}, true},
           {{"q_proj"}, {}, false},
           {{"q_proj", "1.mlp.gate"}, {}, false}}) {
    job_.lora.target_modules = modules;
    job_.lora.target_parameters = parameters;
    const absl::Status status = CheckAdapterSettings(job_, model_);
    EXPECT_EQ(status.ok(), same) << status;
    if (same) continue;
    ExpectRefusal(status, "has target_parameters [\"gate.weight\"] and the job lora.");
  }
}

}  // namespace
}  // namespace router_targets_test
}  // namespace coxswain::planner
