// The sections `reward` and `classification`, and what jobs of their methods may not say.
#include "common/config/rules/score_rules.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "common/config/rules/bin_capacity.h"
#include "common/config/schema/recipe_keys.h"
#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

constexpr char kTwo[] = "{num_labels: 2}";

// `section`: what `reward` or `classification` says.
ParsedJob ScoreJob(const std::string& method, const std::string& section,
                   const std::string& more = "") {
  return ParseJob(WithSpec("  method: " + method + "\n  " + method + ": " + section + "\n" + more),
                  "/jobs");
}

JobSpec ScoreSpecOf(const std::string& method, const std::string& section,
                    const std::string& more = "") {
  ParsedJob job = ScoreJob(method, section, more);
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  return std::move(job.spec);
}

TEST(ScoreTest, RewardScoresPairs) {
  const JobSpec job = ScoreSpecOf("reward", "{}", "  sequence_len: 4096\n");
  EXPECT_TRUE(IsScoreMethod(job.method));
  EXPECT_EQ(ScoreLabels(job), 1);
  EXPECT_EQ(job.reward.center_coefficient, 0);
  EXPECT_EQ(job.datasets.front().format, DatasetFormat::kPreference);
  EXPECT_EQ(DocumentsPerUnit(job), 2);
  EXPECT_EQ(BinCapacity(job), 8192);
  EXPECT_EQ(job.packing.max_documents_per_bin, 128);
  EXPECT_TRUE(job.preference.loss.empty());
  EXPECT_EQ(ScoreSpecOf("reward", "{center_coefficient: 0.01}").reward.center_coefficient, 0.01);
}

TEST(ScoreTest, ClassificationHasItsLabels) {
  const JobSpec job = ScoreSpecOf("classification", "{num_labels: 3}", "  sequence_len: 4096\n");
  EXPECT_EQ(ScoreLabels(job), 3);
  EXPECT_EQ(job.classification.problem, "single_label");
  EXPECT_TRUE(job.classification.label_names.empty());
  EXPECT_EQ(DocumentsPerUnit(job), 1);
  EXPECT_EQ(job.packing.max_documents_per_bin, 64);
  const JobSpec named = ScoreSpecOf("classification", "{label_names: [no, yes, '3']}");
  EXPECT_EQ(named.classification.num_labels, 3);
  EXPECT_EQ(named.classification.label_names, (std::vector<std::string>{"no", "yes", "3"}));
  const JobSpec number = ScoreSpecOf("classification", "{num_labels: 1, problem: regression}");
  EXPECT_EQ(number.classification.problem, "regression");
}

TEST(ScoreTest, OtherMethodsHaveNoScores) {
  const JobSpec job = ParseJob(kSmallJob, "/jobs").spec;
  EXPECT_FALSE(IsScoreMethod(job.method));
  EXPECT_EQ(ScoreLabels(job), 0);
  EXPECT_FALSE(IsScoreMethod("dpo"));
}

// Invariant config-2.
TEST(ScoreTest, EffectiveJobParsesToItself) {
  for (const auto& [method, section] :
       {std::pair("reward", "{}"), std::pair("classification", "{label_names: [a, b]}"),
        std::pair("classification", "{num_labels: 1, problem: multi_label}")}) {
    const ParsedJob job = ScoreJob(method, section);
    const ParsedJob again = ParseJob(job.effective_json, "/elsewhere");
    EXPECT_TRUE(again.errors.empty()) << FormatErrors(again.errors, method);
    EXPECT_EQ(again.effective_json, job.effective_json) << method;
  }
}

TEST(ScoreTest, WhatAMethodDoesNotReadIsRefusedByName) {
  const struct {
    const char* method;
    const char* section;
    const char* more;
    const char* path;
    const char* message;
  } cases[] = {
      {"reward", "{}", "  classification: {num_labels: 2}\n", "spec.classification.num_labels",
       "goes with method classification; method is reward"},
      {"classification", kTwo, "  reward: {center_coefficient: 0}\n",
       "spec.reward.center_coefficient", "goes with method reward; method is classification"},
      {"reward", "{}", "  preference: {loss: sigmoid}\n", "spec.preference.loss",
       "goes with method dpo, orpo, cpo, simpo, kto; method is reward"},
      {"reward", "{center_coefficient: -1}", "", "spec.reward.center_coefficient", "out of range"},
      {"classification", "{num_labels: 0}", "", "spec.classification.num_labels", "out of range"},
      {"classification", "{}", "", "spec.classification.num_labels", "needs the number of classes"},
      {"classification", "{num_labels: 1}", "", "spec.classification.num_labels",
       "gives one class"},
      {"classification", "{label_names: [a]}", "", "spec.classification.label_names",
       "gives one class"},
      {"classification", "{label_names: []}", "", "spec.classification.label_names",
       "at least one name"},
      {"classification", "{label_names: [a, a]}", "", "spec.classification.label_names",
       "a is named twice"},
      {"classification", "{label_names: [a, '']}", "", "spec.classification.label_names",
       "an empty name"},
      {"classification", "{label_names: [a, b], num_labels: 3}", "",
       "spec.classification.num_labels", "is 3, and label_names has 2 names"},
      {"classification", "{num_labels: 2, problem: ranking}", "", "spec.classification.problem",
       "expected one of single_label, multi_label, regression"},
      {"reward", "{}", "  train: {label_smoothing: 0.1}\n", "spec.train.label_smoothing",
       "is of the loss of sft and pretrain; method is reward"},
      {"classification", kTwo, "  train: {z_loss: 0.1}\n", "spec.train.z_loss",
       "method is classification"},
      {"classification", kTwo, "  train_on_inputs: true\n", "spec.train_on_inputs",
       "goes with method sft; method classification scores whole documents"},
      {"classification", kTwo, "  train_on: last\n", "spec.train_on", "scores whole documents"},
      {"reward", "{}", "  train_on_eos: all\n", "spec.train_on_eos", "scores whole documents"},
      {"reward", "{}", "  roles_to_train: [user]\n", "spec.roles_to_train",
       "scores whole documents"},
      {"classification", kTwo, "  excess_length: split\n", "spec.excess_length",
       "scores whole documents; give truncate, drop or error"},
      {"reward", "{}", "  packing: {max_documents_per_bin: 1}\n",
       "spec.packing.max_documents_per_bin", "keeps two documents in a bin"},
      {"reward", "{}", "  eval: {sample_prompts: [Why]}\n", "spec.eval.sample_prompts",
       "goes with a model that answers; method is reward"},
      {"classification", kTwo, "  generate: {prompts: [Why]}\n", "spec.generate.prompts",
       "goes with method: generate"},
      {"reward", "{}", "  adapter: lora\n  lora: {target_modules: [q_proj, lm_head]}\n",
       "spec.lora.target_modules", "lm_head is not in a model of method reward"},
      {"classification", kTwo, "  adapter: lora\n  lora: {modules_to_save: [lm_head]}\n",
       "spec.lora.modules_to_save", "its score head trains in full"},
      {"reward", "{}", "  test_datasets: [{path: ./a.jsonl, format: unpaired_preference}]\n",
       "spec.test_datasets[0].format",
       "method reward reads format: preference, got unpaired_preference"},
      {"classification", kTwo, "  test_datasets: [{path: ./a.jsonl, format: completion}]\n",
       "spec.test_datasets[0].format",
       "method classification reads format: classification, got completion"},
  };
  for (const auto& c : cases) {
    const ParsedJob job = ScoreJob(c.method, c.section, c.more);
    ASSERT_EQ(job.errors.size(), 1u)
        << c.method << c.section << c.more << FormatErrors(job.errors, "job.yaml");
    EXPECT_EQ(job.errors[0].path, c.path);
    EXPECT_GT(job.errors[0].line, 0);
    EXPECT_NE(job.errors[0].message.find(c.message), std::string::npos) << job.errors[0].message;
  }
}

TEST(ScoreTest, WhatActsIsAccepted) {
  ScoreSpecOf("classification", "{num_labels: 1, problem: multi_label}",
              "  packing: {max_documents_per_bin: 1}\n");
  ScoreSpecOf("reward", "{}",
              "  adapter: lora\n  lora: {modules_to_save: [score]}\n  val_set_size: 0.1\n"
              "  eval: {early_stopping_patience: 2}\n");
  ScoreSpecOf("classification", kTwo, "  chat_template: chatml\n");
}

// What an evaluation does not measure cannot stop a job early.
TEST(ScoreTest, TheMetricIsOneOfTheMethod) {
  const auto errors = [](const char* method, const char* section, const std::string& metric) {
    return ScoreJob(method, section,
                    "  val_set_size: 0.1\n  eval: {early_stopping_patience: 2, metric: " + metric +
                        "}\n")
        .errors;
  };
  EXPECT_TRUE(errors("reward", "{}", "eval_rewards/margins").empty());
  EXPECT_TRUE(errors("classification", kTwo, "eval_accuracy").empty());
  const auto wrong = errors("classification", kTwo, "eval_rewards/margins");
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].path, "spec.eval.metric");
  EXPECT_NE(wrong[0].message.find("nothing that an evaluation of method classification measures"),
            std::string::npos);
  EXPECT_EQ(errors("reward", "{}", "eval_accuracy").size(), 1u);
  EXPECT_EQ(
      errors("classification", "{num_labels: 1, problem: regression}", "eval_accuracy").size(), 1u);
}

TEST(ScoreTest, RecipeKeysAreThoseThatTheMethodReads) {
  const auto keys = [](const char* method, const char* section) {
    return DecidingKeys(ScoreJob(method, section).effective_json);
  };
  EXPECT_EQ(keys("reward", "{}").at("reward.center_coefficient"), "0.0");
  EXPECT_EQ(keys("reward", "{}").count("classification.problem"), 0u);
  const KeyValues classes = keys("classification", "{label_names: [a, b]}");
  EXPECT_EQ(classes.at("classification.num_labels"), "2");
  EXPECT_EQ(classes.at("classification.label_names"), "[\"a\",\"b\"]");
  EXPECT_EQ(classes.at("classification.problem"), "\"single_label\"");
  EXPECT_EQ(classes.count("reward.center_coefficient"), 0u);
}

}  // namespace
}  // namespace coxswain::config
