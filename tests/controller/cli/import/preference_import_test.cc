// What Axolotl and LLaMA-Factory say of preferences, with their defaults.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/controller/cli/import/imports.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::job_import {
namespace {

// `source`: the rest of the entry of its one source.
Tried Axolotl(const std::string& more,
              const std::string& source = ", type: chat_template.default") {
  return Try(absl::StrCat("base_model: ./m\nlearning_rate: 1e-5\nmicro_batch_size: 2\ndatasets:\n",
                          "  - {path: ./pairs.jsonl", source, "}\n", more));
}

// Invariants import-1 and import-2.
TEST(PreferenceImportTest, MethodsOfRlHaveTheirDefaults) {
  const struct {
    const char* rl;
    const char* method;
    const char* format;
    const char* loss;
    const char* beta;
  } rows[] = {{"dpo", "dpo", "preference", "", ""},
              {"ipo", "dpo", "preference", "[\"ipo\"]", ""},
              {"orpo", "orpo", "preference", "", ""},
              {"simpo", "simpo", "preference", "", "0.1"},
              {"kto", "kto", "unpaired_preference", "", ""}};
  for (const auto& row : rows) {
    const std::string source =
        std::string(row.rl) == "kto" ? ", type: chatml.ultra" : ", type: chat_template.default";
    const Tried t = Axolotl(absl::StrCat("rl: ", row.rl, "\n"), source);
    EXPECT_EQ(t.InTheWay(), "") << row.rl;
    EXPECT_EQ(t.At("method"), absl::StrCat("\"", row.method, "\""));
    EXPECT_EQ(t.At("datasets.0.format"), absl::StrCat("\"", row.format, "\""));
    EXPECT_EQ(t.At("preference.loss"), row.loss);
    EXPECT_EQ(t.At("preference.beta"), row.beta);
  }
  EXPECT_EQ(Axolotl("rl: simpo\n").At("preference.nll_weight"), "1");
}

TEST(PreferenceImportTest, KeysOfRlAreThoseOfPreference) {
  const Tried dpo = Axolotl(
      "rl: dpo\nrl_beta: 0.3\ndpo_loss_type: [robust, sft]\ndpo_loss_weights: [1, 0.5]\n"
      "dpo_label_smoothing: 0.1\nprecompute_ref_log_probs: true\ndpo_padding_free: true\n"
      "train_on_inputs: false\n");
  EXPECT_EQ(dpo.InTheWay(), "");
  EXPECT_EQ(dpo.At("preference"), R"({"loss":["robust","sft"],"loss_weights":[1,0.5],"beta":0.3,)"
                                  R"("label_smoothing":0.1,"reference":"cached"})");
  const Tried kto = Axolotl("rl: kto\nkto_desirable_weight: 0.2\nkto_undesirable_weight: 2\n",
                            ", type: llama3.ultra");
  EXPECT_EQ(kto.At("preference"), R"({"desirable_weight":0.2,"undesirable_weight":2})");
  EXPECT_EQ(Axolotl("rl: orpo\norpo_alpha: 0.2\n").At("preference.beta"), "0.2");
  const Tried simpo = Axolotl("rl: simpo\nsimpo_gamma: 1.6\ncpo_alpha: 0\nrl_beta: 2\n");
  EXPECT_EQ(simpo.At("preference"), R"({"beta":2,"gamma":1.6,"nll_weight":0})");
}

TEST(PreferenceImportTest, SmoothingThatTrlIgnoresIsLeftOut) {
  const Tried t = Axolotl("rl: dpo\ndpo_label_smoothing: 0.1\n");
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("preference"), "");
  EXPECT_TRUE(t.Says("left out: dpo_label_smoothing: 0.1 (TRL ignores it with this loss"))
      << t.report;
}

TEST(PreferenceImportTest, TypesSayTemplateFieldsAndStyle) {
  const Tried intel = Axolotl("rl: dpo\nchat_template: llama3\n", ", type: chatml.intel");
  EXPECT_EQ(intel.InTheWay(), "");
  EXPECT_EQ(intel.At("chat_template"), "\"chatml\"");
  EXPECT_EQ(intel.At("datasets.0.prompt_style"), "\"chat\"");
  const Tried named =
      Axolotl("rl: dpo\nchat_template: llama3\n",
              ", type: chat_template.default, field_messages: conversation, field_chosen: good, "
              "message_property_mappings: {role: who, content: content}, roles: {user: [me]}");
  EXPECT_EQ(named.InTheWay(), "");
  EXPECT_EQ(named.At("chat_template"), "\"llama3\"");
  EXPECT_EQ(named.At("datasets.0.field_messages"), "\"conversation\"");
  EXPECT_EQ(named.At("datasets.0.field_chosen"), "\"good\"");
  EXPECT_EQ(named.At("datasets.0.message_role_key"), "\"who\"");
  EXPECT_EQ(named.At("datasets.0.roles"), R"({"user":["me"]})");
  const Tried own =
      Axolotl("rl: dpo\n",
              ", type: {field_prompt: q, prompt_format: '{prompt}', chosen_format: '{chosen}'}");
  EXPECT_EQ(own.InTheWay(), "");
  EXPECT_EQ(own.At("datasets.0.field_prompt"), "\"q\"");
  EXPECT_EQ(own.At("datasets.0.prompt_style"), "");
  EXPECT_NE(Axolotl("rl: dpo\n", ", type: {prompt_format: '[{prompt}]'}")
                .InTheWay()
                .find("type (prompt_format: a prompt of one's own"),
            std::string::npos);
  EXPECT_NE(
      Axolotl("rl: dpo\n", ", type: zephyr.nectar").InTheWay().find("type (its prompt has no"),
      std::string::npos);
}

TEST(PreferenceImportTest, ReinforcementStopsTheImportInOneLine) {
  EXPECT_EQ(Axolotl("rl: grpo\ntrl: {beta: 0.1}\nvllm: {host: x}\n", ", type: a.b").InTheWay(),
            "rl (reinforcement learning (grpo) has no counterpart yet)\n");
  EXPECT_EQ(Axolotl("process_reward_model: true\nnum_labels: 2\n",
                    ", type: stepwise_supervised, step_separator: x")
                .InTheWay(),
            "process_reward_model (scores of single steps have no counterpart)\n");
}

// Source: Axolotl's examples/qwen2 and qwen3/reward-model.yaml.
TEST(PreferenceImportTest, RewardModelsAreAMethod) {
  const Tried t = Axolotl(
      "model_type: AutoModelForSequenceClassification\nnum_labels: 1\nreward_model: true\n"
      "center_rewards_coefficient: 0.01\nchat_template: llama3\nsample_packing: false\n"
      "remove_unused_columns: false\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_dropout: 0.1\n"
      "lora_modules_to_save: [score]\ntrain_on_inputs: false\n",
      ", type: bradley_terry.chat_template");
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("method"), "\"reward\"");
  EXPECT_EQ(t.At("reward.center_coefficient"), "0.01");
  EXPECT_EQ(t.At("datasets.0.format"), "\"preference\"");
  EXPECT_EQ(t.At("datasets.0.prompt_style"), "\"chat\"");
  EXPECT_EQ(t.At("chat_template"), "\"llama3\"");
  EXPECT_EQ(t.At("excess_length"), "\"truncate\"");
  EXPECT_EQ(t.At("lora.modules_to_save"), "");
  EXPECT_EQ(t.At("lora.dropout"), "0");
  EXPECT_EQ(t.At("classification"), "");
  EXPECT_TRUE(t.Says("left out: num_labels: 1 (a reward is one number)")) << t.report;
  const Tried icr = Axolotl(
      "reward_model: true\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_modules_to_save: [score, "
      "embed_tokens]\n",
      ", type: bradley_terry.llama3.icr");
  EXPECT_EQ(icr.InTheWay(), "");
  EXPECT_EQ(icr.At("chat_template"), "\"llama3\"");
  EXPECT_EQ(icr.At("lora.modules_to_save"), "[\"embed_tokens\"]");
  EXPECT_NE(Axolotl("reward_model: true\n", ", type: bradley_terry.other")
                .InTheWay()
                .find("type (its prompt has no counterpart"),
            std::string::npos);
}

TEST(PreferenceImportTest, ALabelWithoutARewardIsNone) {
  const Tried t = Axolotl("reward_model: false\ncenter_rewards_coefficient: 0.01\n");
  EXPECT_EQ(t.InTheWay(), "");
  EXPECT_EQ(t.At("method"), "\"sft\"");
  EXPECT_TRUE(t.Says("left out: center_rewards_coefficient: 0.01 (of reward_model)")) << t.report;
  EXPECT_EQ(Axolotl("num_labels: 2\n").InTheWay(),
            "num_labels (Axolotl trains no classifier by it: give method: classification)\n");
}

class PreferenceStageTest : public testing::Test {
 protected:
  PreferenceStageTest() {
    folder_.Write("dataset_info.json", R"({
      "pairs": {"file_name": "p.json", "ranking": true, "formatting": "sharegpt",
                "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "worse"}},
      "asked": {"file_name": "a.json", "ranking": true,
                "columns": {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"}},
      "tagged": {"file_name": "k.json", "formatting": "sharegpt",
                 "columns": {"messages": "messages", "kto_tag": "good"},
                 "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
      "plain": {"file_name": "s.json"}})");
  }
  Tried Import(const std::string& stage, const std::string& data, const std::string& more = "") {
    return Try(absl::StrCat("model_name_or_path: ./m\nstage: ", stage,
                            "\ntemplate: llama3\ndataset: ", data, "\n", more),
               folder_.path());
  }
  support::ScratchFolder folder_;
};

TEST_F(PreferenceStageTest, SourcesOfPreferences) {
  const Tried dpo = Import("dpo", "pairs,asked");
  EXPECT_EQ(dpo.InTheWay(), "");
  EXPECT_EQ(dpo.At("method"), "\"dpo\"");
  EXPECT_EQ(dpo.At("datasets.0.format"), "\"preference\"");
  EXPECT_EQ(dpo.At("datasets.0.field_rejected"), "\"worse\"");
  EXPECT_EQ(dpo.At("datasets.1.prompt_style"), "\"chat\"");
  EXPECT_EQ(dpo.At("preference"), R"({"loss":["sigmoid"],"beta":0.1})");
  const Tried kto = Import("kto", "tagged", "kto_chosen_weight: 2\nmask_history: true\n");
  EXPECT_EQ(kto.InTheWay(), "");
  EXPECT_EQ(kto.At("datasets.0.format"), "\"unpaired_preference\"");
  EXPECT_EQ(kto.At("datasets.0.field_label"), "\"good\"");
  EXPECT_EQ(kto.At("preference.desirable_weight"), "2");
  EXPECT_NE(Import("dpo", "plain").InTheWay().find("no data set of preferences"),
            std::string::npos);
}

TEST_F(PreferenceStageTest, RewardsAreOfPairs) {
  const Tried rm = Import("rm", "pairs", "finetuning_type: lora\nlora_dropout: 0.1\n");
  EXPECT_EQ(rm.InTheWay(), "");
  EXPECT_EQ(rm.At("method"), "\"reward\"");
  EXPECT_EQ(rm.At("datasets.0.format"), "\"preference\"");
  EXPECT_EQ(rm.At("preference"), "");
  EXPECT_EQ(rm.At("lora.dropout"), "0.1") << "that stage keeps dropout";
  EXPECT_TRUE(rm.Says("a linear layer without a bias")) << rm.report;
  EXPECT_NE(Import("rm", "plain").InTheWay().find("no data set of preferences"), std::string::npos);
  EXPECT_NE(Import("sft", "pairs").InTheWay().find("which stage dpo, kto or rm reads"),
            std::string::npos);
}

TEST_F(PreferenceStageTest, LossesOfPairs) {
  const Tried smooth = Import("dpo", "pairs", "dpo_label_smoothing: 0.1\npref_ftx: 0.5\n");
  EXPECT_EQ(smooth.InTheWay(), "");
  EXPECT_EQ(smooth.At("preference.loss"), R"(["cdpo","sft"])");
  EXPECT_EQ(smooth.At("preference.loss_weights"), "[1,0.5]");
  const Tried simpo =
      Import("dpo", "pairs", "pref_loss: simpo\nsimpo_gamma: 0.8\npref_beta: 2.5\n");
  EXPECT_EQ(simpo.InTheWay(), "");
  EXPECT_EQ(simpo.At("method"), "\"simpo\"");
  EXPECT_EQ(simpo.At("preference"), R"({"beta":2.5,"gamma":0.8})");
  const Tried orpo = Import("dpo", "pairs", "pref_loss: orpo\n");
  EXPECT_EQ(orpo.At("method"), "\"orpo\"");
  EXPECT_TRUE(orpo.Says("the likelihood runs over prompt and completion")) << orpo.report;
  EXPECT_NE(Import("dpo", "pairs", "pref_loss: kto_pair\n").InTheWay().find("pref_loss (this loss"),
            std::string::npos);
  EXPECT_EQ(Import("dpo", "pairs", "adapter_name_or_path: ./a\n").At("preference.reference"),
            "\"base\"");
}

// A config names no script, so its keys do.
TEST(PreferenceImportTest, KeysOfTrlNameTheScript) {
  const std::string file = "model_name_or_path: ./m\ndataset_name: ./pairs\nuse_peft: true\n";
  const Tried dpo = Try(file + "beta: 0.2\nloss_type: [sigmoid, sft]\nloss_weights: [1, 0.1]\n");
  EXPECT_EQ(dpo.InTheWay(), "");
  EXPECT_EQ(dpo.At("method"), "\"dpo\"");
  EXPECT_EQ(dpo.At("preference"),
            R"({"loss":["sigmoid","sft"],"loss_weights":[1,0.1],"beta":0.2})");
  EXPECT_EQ(dpo.At("train.learning_rate"), "1e-06");
  EXPECT_EQ(dpo.At("lora.dropout"), "0");
  EXPECT_TRUE(dpo.Says("disable_dropout is on in trainers of preferences")) << dpo.report;
  const Tried kto = Try(file + "undesirable_weight: 1.5\ndisable_dropout: false\n");
  EXPECT_EQ(kto.InTheWay(), "");
  EXPECT_EQ(kto.At("method"), "\"kto\"");
  EXPECT_EQ(kto.At("preference.undesirable_weight"), "1.5");
  EXPECT_EQ(kto.At("lora.dropout"), "0.05");
  const Tried simpo = Try(file + "loss_type: simpo\nsimpo_gamma: 1\n");
  EXPECT_EQ(simpo.InTheWay(), "");
  EXPECT_EQ(simpo.At("method"), "\"simpo\"");
  EXPECT_EQ(simpo.At("preference"), R"({"beta":0.1,"gamma":1,"nll_weight":1})");
  EXPECT_EQ(Try(file + "loss_type: nll\n").At("method"), "\"sft\"");
}

TEST(PreferenceImportTest, RewardsOfTrl) {
  const Tried reward = Try(
      "model_name_or_path: ./m\ndataset_name: ./pairs\nuse_peft: true\nmax_length: 512\n"
      "lora_task_type: SEQ_CLS\nlora_modules_to_save: [score]\ncenter_rewards_coefficient: 0.01\n");
  EXPECT_EQ(reward.InTheWay(), "");
  EXPECT_EQ(reward.At("method"), "\"reward\"");
  EXPECT_EQ(reward.At("reward.center_coefficient"), "0.01");
  EXPECT_EQ(reward.At("train.learning_rate"), "0.0001");
  EXPECT_EQ(reward.At("excess_length"), "\"drop\"");
  EXPECT_EQ(reward.At("lora.modules_to_save"), "");
  EXPECT_EQ(reward.At("lora.dropout"), "0");
  const std::string options = " --model_name_or_path m/n --dataset_name o/d\n";
  EXPECT_EQ(Try("trl reward" + options).At("method"), "\"reward\"");
  EXPECT_EQ(Try("python examples/scripts/reward_modeling.py" + options).At("method"), "\"reward\"");
}

TEST(PreferenceImportTest, ScriptsOfTrlAreNamedByTheirCommand) {
  const std::string options = " --model_name_or_path m/n --dataset_name o/d\n";
  EXPECT_EQ(Try("trl dpo" + options).At("method"), "\"dpo\"");
  EXPECT_EQ(Try("trl kto" + options).At("method"), "\"kto\"");
  EXPECT_EQ(Try("accelerate launch examples/scripts/orpo.py" + options).At("method"), "\"orpo\"");
  const Tried sft = Try("trl sft" + options);
  EXPECT_EQ(sft.At("method"), "\"sft\"");
  const Tried cpo = Try("python cpo.py --label_smoothing 0.1" + options);
  EXPECT_EQ(cpo.At("method"), "\"cpo\"");
  EXPECT_EQ(cpo.At("preference.label_smoothing"), "0.1");
  EXPECT_NE(
      Try("trl dpo --sync_ref_model" + options).InTheWay().find("sync_ref_model (a reference"),
      std::string::npos);
}

}  // namespace
}  // namespace coxswain::job_import
