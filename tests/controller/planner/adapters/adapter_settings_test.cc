#include "controller/planner/adapters/adapter_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "common/config/parser/job_parser.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/read/read_model_config.h"
#include "controller/planner/adapters/target_modules.h"
#include "controller/planner/model/added_tokens.h"
#include "controller/planner/model/parameter_groups.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

// config.json of SmallModel.
constexpr char kModel[] =
    R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 16,
        "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": true,
        "torch_dtype": "float32"})";

class AdapterSettingsTest : public testing::Test {
 protected:
  AdapterSettingsTest() {
    job_.adapter = config::Adapter::kLora;
    job_.lora.init_from = folder_.path();
    job_.lora.r = 4;
    job_.lora.alpha = 64;
    job_.lora.target_modules = {"q_proj", "v_proj"};
  }

  absl::Status Check(const std::string& config) {
    folder_.Write("adapter_config.json", config);
    return CheckAdapterSettings(job_, SmallModel());
  }
  // Of an adapter like the job's, but for `more`.
  absl::Status CheckWith(const std::string& more) {
    return Check(R"({"r": 4, "lora_alpha": 64, "target_modules": ["q_proj", "v_proj"], )" + more +
                 "}");
  }
  static void Refused(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
  }
  // What a job with such a section `lora` becomes.
  absl::StatusOr<config::ParsedJob> TakenOver(const std::string& lora, const std::string& config,
                                              const char* model = kModel) {
    folder_.Write("config.json", model);
    folder_.Write("adapter_config.json", config);
    const std::string yaml =
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: t}\nspec:\n"
        "  base_model: .\n  adapter: lora\n  datasets: [{path: ./d.jsonl}]\n"
        "  lora: " +
        lora + "\n";
    config::ParsedJob parsed = config::ParseJob(yaml, folder_.path());
    EXPECT_TRUE(parsed.errors.empty()) << config::FormatErrors(parsed.errors, "job");
    return TakeOverAdapter(std::move(parsed), yaml, folder_.path());
  }

  const support::ScratchFolder folder_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(AdapterSettingsTest, NumbersThatNoAdapterHasAreRefusedByName) {
  for (const char* numbers : {R"("r": 1.5, "lora_alpha": 64)", R"("r": 4, "lora_alpha": 1e300)",
                              R"("r": 1e30, "lora_alpha": 64)"}) {
    Refused(Check("{" + std::string(numbers) + R"(, "target_modules": ["q_proj"]})"),
            "a whole number and one of at most 1e9 are expected");
  }
}

TEST_F(AdapterSettingsTest, AConfigurationThatCannotBeReadIsNoneThatIsNotThere) {
  std::filesystem::create_directory(folder_.path() + "/adapter_config.json");
  const absl::Status status = CheckAdapterSettings(job_, SmallModel());
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "adapter_config.json")) << status;
}

TEST_F(AdapterSettingsTest, PatternsThatTakeForeverDoNot) {
  std::string many;
  for (int i = 0; i < 10'001; ++i) many += "\"p" + std::to_string(i) + "\": 4,";
  many.pop_back();
  Refused(CheckWith(R"("rank_pattern": {)" + many + "}"), "no map of at most 10000 patterns");
  // It goes back and forth over each name, and ends.
  EXPECT_TRUE(CheckWith(R"("rank_pattern": {"((a-z|.)+)+!": 8})").ok());
}

TEST_F(AdapterSettingsTest, TheSameSettingsPass) {
  EXPECT_TRUE(CheckWith(R"("use_dora": false, "bias": "none", "rank_pattern": {},
                           "init_lora_weights": true, "layers_to_transform": null)")
                  .ok());
}

TEST_F(AdapterSettingsTest, AnotherScaleIsRefusedWithBothValues) {
  Refused(Check(R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]})"),
          "lora_alpha 8 and the job lora.alpha 64");
  Refused(CheckWith(R"("use_rslora": true)"), "use_rslora true and the job lora.use_rslora false");
  Refused(CheckWith(R"("use_dora": true)"), "use_dora true and the job lora.use_dora false");
  Refused(Check(R"({"r": 8, "lora_alpha": 64, "target_modules": ["q_proj", "v_proj"]})"),
          "has r 8 and the job lora.r 4");
  Refused(Check("[]"), "is not a JSON object");
  Refused(Check(R"({"r": 4, "lora_alpha": 64})"), "it is no LoRA adapter");
}

TEST_F(AdapterSettingsTest, WhatIsNotComputedIsRefusedByName) {
  Refused(CheckWith(R"("bias": "lora_only")"), R"(bias "lora_only" is not supported)");
  Refused(CheckWith(R"("peft_type": "IA3")"), R"(peft_type is "IA3")");
  Refused(CheckWith(R"("trainable_token_indices": [3])"), "trainable_token_indices [3]");
  Refused(CheckWith(R"("init_lora_weights": "pissa")"), "changes the weights of the base");
  EXPECT_TRUE(CheckWith(R"("init_lora_weights": "gaussian")").ok());
}

TEST_F(AdapterSettingsTest, APatternOfRanksCountsWhereItMeansAnAdaptedModule) {
  EXPECT_TRUE(CheckWith(R"("rank_pattern": {"o_proj": 2, "q_proj": 4})").ok());
  Refused(CheckWith(R"("rank_pattern": {"layers\\.1\\..*q_proj": 2})"),
          "rank_pattern gives model.layers.1.self_attn.q_proj 2, and 4 is that of the others");
  Refused(CheckWith(R"("alpha_pattern": {"v_proj": 2})"), "alpha_pattern gives");
}

TEST_F(AdapterSettingsTest, ModulesAreComparedAsTheyAreInTheModel) {
  const auto targets = [this](const std::string& json) {
    return Check(R"({"r": 4, "lora_alpha": 64, "target_modules": )" + json + "}");
  };
  EXPECT_TRUE(targets(R"(".*self_attn\\.(q_proj|v_proj)$")").ok());
  EXPECT_TRUE(targets(R"(["v_proj", "self_attn.q_proj", "c_attn"])").ok());
  Refused(targets(R"("all-linear")"),
          R"(target_modules ["all-linear"] and the job lora.target_modules ["q_proj","v_proj"])");
  Refused(targets(R"x(".*layers\\.0\\..*(q_proj|v_proj)")x"),
          "the adapter would compute something");
  Refused(targets(R"(["c_attn"])"), "is no module of the model");
  Refused(targets(R"x("(")x"), "is no regular expression");
  job_.lora.target_modules = {"all-linear"};
  EXPECT_TRUE(targets(R"("ALL-linear")").ok());
}

TEST_F(AdapterSettingsTest, WhatTrainsInFullIsComparedByItsMatrices) {
  Refused(CheckWith(R"("modules_to_save": ["embed_tokens"])"),
          R"(modules_to_save ["embed_tokens"] and the job lora.modules_to_save [])");
  job_.lora.modules_to_save = {"embed_tokens"};
  EXPECT_TRUE(CheckWith(R"("modules_to_save": ["lm_head", "embed_tokens"])").ok());  // tied
  Refused(CheckWith(R"("modules_to_save": null)"), "and the job lora.modules_to_save");
}

TEST_F(AdapterSettingsTest, WhatTheJobLeavesOutIsTakenOver) {
  const auto job = TakenOver("{init_from: .}",
                             R"x({"r": 4, "lora_alpha": 8, "use_rslora": true,
                                 "target_modules": ".*\\.(q_proj|v_proj)",
                                 "modules_to_save": ["norm"]})x");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.r, 4);
  EXPECT_EQ(job->spec.lora.alpha, 8);
  EXPECT_TRUE(job->spec.lora.use_rslora);
  EXPECT_EQ(job->spec.lora.target_modules, std::vector<std::string>{R"x(.*\.(q_proj|v_proj))x"});
  EXPECT_EQ(job->spec.lora.modules_to_save, std::vector<std::string>{"norm"});
  EXPECT_TRUE(CheckAdapterSettings(job->spec, SmallModel()).ok());
}

TEST_F(AdapterSettingsTest, WhatTheJobSaysIsKept) {
  const auto job = TakenOver("{init_from: ., alpha: 32}",
                             R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.r, 4);
  EXPECT_EQ(job->spec.lora.alpha, 32);
  Refused(CheckAdapterSettings(job->spec, SmallModel()), "lora_alpha 8 and the job lora.alpha 32");
}

TEST_F(AdapterSettingsTest, LayersAreTakenOverByTheirModules) {
  const auto job = TakenOver("{init_from: .}",
                             R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"],
                                 "layers_to_transform": [0, 2], "exclude_modules": "(.*)2(.*)v_proj"})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.target_modules,
            (std::vector<std::string>{"model.layers.0.self_attn.q_proj",
                                      "model.layers.0.self_attn.v_proj",
                                      "model.layers.2.self_attn.q_proj"}));
}

// config.json of a Qwen3-MoE of two blocks, 4 experts of 8.
constexpr char kMixture[] =
    R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 16,
        "intermediate_size": 40, "moe_intermediate_size": 8, "num_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 128})";

class AdaptedStacksTest : public AdapterSettingsTest {
 protected:
  AdaptedStacksTest() {
    folder_.Write("config.json", kMixture);
    model_ = *model::ReadModelConfig(folder_.path());
    job_.lora.target_modules = {"q_proj"};
    job_.lora.target_parameters = {"experts.down_proj", "experts.gate_up_proj"};
  }
  // Of an adapter with such targets.
  absl::Status CheckTargets(const std::string& targets) {
    folder_.Write("adapter_config.json", R"({"r": 4, "lora_alpha": 64, )" + targets + "}");
    return CheckAdapterSettings(job_, model_);
  }
  // An adapter with a tensor of that name.
  void WriteTensor(const std::string& name) {
    const TensorSource tensor{name, ElementType::kF32, {1}, [](uint8_t* out) {
                                std::fill_n(out, 4, uint8_t{0});
                                return absl::OkStatus();
                              }};
    ASSERT_TRUE(WriteSafetensors(folder_.path() + "/adapter_model.safetensors", {tensor}).ok());
  }
  model::ModelConfig model_;
};

TEST_F(AdaptedStacksTest, TheSameStacksPassHoweverTheyAreNamed) {
  const char kBoth[] = R"("target_parameters": ["mlp.experts.gate_up_proj", "down_proj"])";
  EXPECT_TRUE(CheckTargets(std::string(R"("target_modules": ["q_proj"], )") + kBoth).ok());
  job_.lora.target_modules = {};
  EXPECT_TRUE(CheckTargets(kBoth).ok());
  EXPECT_TRUE(CheckTargets(std::string(R"("target_modules": null, )") + kBoth).ok());
}

TEST_F(AdaptedStacksTest, OtherStacksAreRefusedWithBothLists) {
  Refused(CheckTargets(R"("target_modules": ["q_proj"],
                          "target_parameters": ["mlp.experts.down_proj"])"),
          R"(has target_parameters ["mlp.experts.down_proj"] and the job lora.target_parameters)");
  Refused(CheckTargets(R"("target_modules": ["q_proj"])"),
          "has target_parameters [] and the job lora.target_parameters");
  Refused(CheckTargets(R"("target_modules": ["q_proj"],
                          "target_parameters": ["1.mlp.experts.down_proj"])"),
          "means mlp.experts.down_proj in 1 of 2 blocks");
  Refused(CheckTargets(R"("target_modules": ["q_proj"], "target_parameters": ["experts.w9"])"),
          R"(target_parameters ["experts.w9"] is no stack of experts, no router and)");
}

TEST_F(AdaptedStacksTest, LinearsOfSingleExpertsAreTheirStacks) {
  const char kTargets[] = R"("target_modules": ["q_proj", "down_proj"])";
  WriteTensor("base_model.model.model.layers.0.mlp.experts.0.down_proj.lora_A.weight");
  Refused(CheckTargets(kTargets), R"(target_parameters ["mlp.experts.down_proj"] and the job)");
  job_.lora.target_parameters = {"down_proj"};
  EXPECT_TRUE(CheckTargets(kTargets).ok());
}

TEST_F(AdaptedStacksTest, AJobTakesOverTheStacks) {
  const std::string adapter = R"({"r": 4, "lora_alpha": 8, "target_modules": [],
                                  "target_parameters": ["experts.gate_up_proj"]})";
  folder_.Write("adapter_config.json", adapter);
  const std::string yaml =
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: t}\nspec:\n"
      "  base_model: .\n  adapter: lora\n  datasets: [{path: ./d.jsonl}]\n"
      "  lora: {init_from: .}\n";
  const auto job = TakeOverAdapter(config::ParseJob(yaml, folder_.path()), yaml, folder_.path());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.target_modules, std::vector<std::string>());
  EXPECT_EQ(job->spec.lora.target_parameters, std::vector<std::string>{"mlp.experts.gate_up_proj"});
}

TEST_F(AdaptedStacksTest, TargetsThatAreNoLinearsSayWhichKeyToSet) {
  plan::Plan plan;
  plan.model = model_;
  job_.lora.init_from.reset();
  for (const auto& [targets, stacks, expected] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"up_proj", "experts.down_proj", "lora.target_parameters: [mlp.experts.gate_up_proj, "},
           {"experts.3.up_proj", "down_proj", "\"experts.3.up_proj\" is of single experts"},
           {".*experts.*", "down_proj", "\".*experts.*\" is of single experts"},
           {"q_proj", "0.mlp.experts.down_proj", "lora.target_parameters means mlp.experts."},
           {"q_proj", "experts.w2", "\"experts.w2\" names no stack"}}) {
    job_.lora.target_modules = {targets};
    job_.lora.target_parameters = {stacks};
    Refused(MakeParameters(job_, &plan), expected);
  }
}

TEST_F(AdaptedStacksTest, ExpertsOfOneTensorLeaveAsStacks) {
  folder_.Write("config.json",
                R"({"architectures": ["GptOssForCausalLM"], "hidden_size": 32, "vocab_size": 40,
                    "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2,
                    "num_experts_per_tok": 1})");
  plan::Plan plan;
  plan.model = *model::ReadModelConfig(folder_.path());
  job_.lora.init_from.reset();
  EXPECT_TRUE(MakeParameters(job_, &plan).ok());
  job_.export_by_expert = true;
  Refused(
      MakeParameters(job_, &plan),
      R"(the files of GptOssForCausalLM have "model.layers.0.mlp.experts.gate_up_proj" as one)");
}

// Layer 0 is dense.
constexpr char kExperts[] =
    R"({"architectures": ["Glm4MoeForCausalLM"], "hidden_size": 16, "intermediate_size": 40,
        "moe_intermediate_size": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
        "vocab_size": 128, "max_position_embeddings": 64})";

TEST_F(AdapterSettingsTest, LinearsOfLatentAttentionHaveTheirNames) {
  const auto job = TakenOver(
      "{target_modules: [q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, shared_expert_gate]}",
      "{}");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.target_modules.size(), 5u);
}

TEST_F(AdapterSettingsTest, StacksAndWeightsOfLinearsAreTakenOver) {
  const std::string numbers = R"({"r": 4, "lora_alpha": 8, "target_parameters": )";
  const auto job = TakenOver(
      "{init_from: .}", numbers + R"(["mlp.experts.down_proj", "shared_experts.up_proj.weight"],
                   "target_modules": ["q_proj"], "rank_pattern": {"gate_up_proj": 8}})",
      kExperts);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.target_modules,
            (std::vector<std::string>{"q_proj", "shared_experts.up_proj"}));
  EXPECT_EQ(job->spec.lora.target_parameters, std::vector<std::string>{"mlp.experts.down_proj"});
  const auto alone =
      TakenOver("{init_from: .}", numbers + R"(["mlp.experts.down_proj"]})", kExperts);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->spec.lora.target_modules.empty());

  const auto model = model::ReadModelConfig(folder_.path());
  ASSERT_TRUE(model.ok()) << model.status();
  job_.lora.target_modules = {};
  job_.lora.alpha = 8;
  job_.lora.init_from = folder_.path();
  job_.lora.target_parameters = {"experts.down_proj"};
  EXPECT_TRUE(CheckAdapterSettings(job_, *model).ok()) << CheckAdapterSettings(job_, *model);
  job_.lora.target_parameters = {"mlp.experts.gate_up_proj"};
  Refused(CheckAdapterSettings(job_, *model), R"(has target_parameters ["mlp.experts.down_proj"])");
}

// As peft writes target_modules: all-linear of such a model.
TEST_F(AdapterSettingsTest, TheRankOfGateAndUpIsTakenOver) {
  const std::string targets =
      R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"],
          "target_parameters": ["gate_up_proj", "down_proj", "gate.weight"], )";
  const std::string ranks = R"("rank_pattern": {".*\\.gate_up_proj": 8}, )";
  const std::string config = targets + ranks + R"("alpha_pattern": {".*\\.gate_up_proj": 16}})";
  const auto job = TakenOver("{init_from: .}", config, kExperts);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.lora.gate_up_r, 8);
  EXPECT_EQ(job->spec.lora.r, 4);
  const auto model = model::ReadModelConfig(folder_.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(CheckAdapterSettings(job->spec, *model).ok());
  config::JobSpec other = job->spec;
  other.lora.gate_up_r = 4;
  Refused(CheckAdapterSettings(other, *model),
          "has rank_pattern 8 and the job lora.gate_up_r null");
  const std::string root = R"("use_rslora": true, "alpha_pattern": {".*\\.gate_up_proj": )";
  EXPECT_TRUE(
      TakenOver("{init_from: .}", targets + ranks + root + "11.313708498984761}}", kExperts).ok());
  Refused(TakenOver("{init_from: .}", targets + ranks + root + "16}}", kExperts).status(),
          "alpha_pattern gives model.layers.1.mlp.experts.gate_up_proj 16");
  Refused(TakenOver("{init_from: .}",
                    targets + R"("rank_pattern": {".*\\.(gate_up|down)_proj": 8}, )" +
                        R"("alpha_pattern": {".*\\.(gate_up|down)_proj": 16}})",
                    kExperts)
              .status(),
          "rank_pattern gives model.layers.1.mlp.experts.down_proj 8, and 4 is that of the others");
}

TEST_F(AdapterSettingsTest, ParametersThatNoAdapterHasAreRefusedByName) {
  const std::string numbers = R"({"r": 4, "lora_alpha": 8, "target_parameters": )";
  for (const char* name : {"mlp.gate", "input_layernorm.weight", "q_proj", "c_fc.weight"}) {
    Refused(TakenOver("{init_from: .}", numbers + "[\"" + name + "\"]}", kExperts).status(),
            "target_parameters [\"" + std::string(name) +
                "\"] is no stack of experts, no router and no weight");
  }
  Refused(
      TakenOver("{init_from: .}",
                numbers + R"(["experts.gate_up_proj"], "rank_pattern": {"gate_up_proj": 8}})",
                kExperts)
          .status(),
      "alpha_pattern gives model.layers.1.mlp.experts.gate_up_proj 8, and 16 gives it the scale");
}

TEST(TargetModulesTest, PathsAndPatternsBecomeModules) {
  const auto names =
      [](const std::vector<std::string>& targets) -> absl::StatusOr<std::vector<std::string>> {
    config::LoraSpec lora;
    lora.target_modules = targets;
    const absl::StatusOr<AdapterTargets> found = TargetsOf(lora, SmallModel());
    if (!found.ok()) return found.status();
    EXPECT_TRUE(found->parameters.empty());
    return found->modules;
  };
  EXPECT_EQ(*names({"q_proj", "all-linear"}), (std::vector<std::string>{"q_proj", "all-linear"}));
  EXPECT_EQ(*names({"1.mlp.up_proj"}), std::vector<std::string>{"model.layers.1.mlp.up_proj"});
  EXPECT_EQ(*names({R"(.*\.[01]\..*\.k_proj|lm_head)"}),
            (std::vector<std::string>{"model.layers.0.self_attn.k_proj",
                                      "model.layers.1.self_attn.k_proj", "lm_head"}));
  EXPECT_TRUE(absl::StrContains(names({"k_proj.*"}).status().message(), "matches no module"));
  EXPECT_TRUE(absl::StrContains(names({".*norm"}).status().message(),
                                "matches model.layers.0.input_layernorm, which is no linear"));
}

TEST(TargetModulesTest, AJobAdaptsWhatItsPatternMatches) {
  config::JobSpec job = SmallJob();
  job.lora.target_modules = {R"(.*\.[02]\.self_attn\.q_proj)"};
  plan::Plan plan;
  plan.model = SmallModel();
  ASSERT_TRUE(MakeParameters(job, &plan).ok());
  std::vector<int32_t> layers;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsLoraA(parameter)) layers.push_back(parameter.layer);
  }
  EXPECT_EQ(layers, (std::vector<int32_t>{0, 2}));
}

TEST(VocabularyTest, ATokenWithoutARowIsRefused) {
  data::PreparedData data;
  data.vocab_size = 261;
  data.train_stats.largest_id = 259;
  model::ModelConfig model;
  model.vocab_size = 260;
  EXPECT_TRUE(GrowVocabulary(data, &model).ok());
  data.train_stats.largest_id = 260;
  const absl::Status status = GrowVocabulary(data, &model);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("holds token 260, and the embedding has 260 rows"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace coxswain::planner
