// The section `preference`: what each method reads, its defaults, and what is refused by name.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "common/config/rules/bin_capacity.h"
#include "common/config/schema/recipe_keys.h"
#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

ParsedJob PreferenceJob(const std::string& method, const std::string& preference = "{}",
                        const std::string& more = "") {
  return ParseJob(WithSpec("  method: " + method + "\n  preference: " + preference + "\n" + more),
                  "/jobs");
}

JobSpec PreferenceSpecOf(const std::string& method, const std::string& preference = "{}",
                         const std::string& more = "") {
  ParsedJob job = PreferenceJob(method, preference, more);
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  return std::move(job.spec);
}

TEST(PreferenceTest, EachMethodHasItsDefaults) {
  const struct {
    const char* method;
    const char* loss;
    double beta, gamma, nll_weight;
    const char* reference;
    double desirable_weight;
  } rows[] = {
      {"dpo", "sigmoid", 0.1, 0, 0, "start", 0}, {"orpo", "orpo", 0.1, 0, 1, "none", 0},
      {"cpo", "sigmoid", 0.1, 0, 1, "none", 0},  {"simpo", "simpo", 2.0, 0.5, 0, "none", 0},
      {"kto", "kto", 0.1, 0, 0, "start", 1},
  };
  for (const auto& row : rows) {
    const PreferenceSpec preference = PreferenceSpecOf(row.method).preference;
    EXPECT_EQ(preference.loss, std::vector<std::string>{row.loss});
    EXPECT_EQ(preference.loss_weights, std::vector<double>{1.0}) << row.method;
    EXPECT_EQ(preference.beta, row.beta) << row.method;
    EXPECT_EQ(preference.gamma, row.gamma) << row.method;
    EXPECT_EQ(preference.nll_weight, row.nll_weight) << row.method;
    EXPECT_EQ(preference.label_smoothing, 0) << row.method;
    EXPECT_EQ(preference.reference, row.reference) << row.method;
    EXPECT_EQ(preference.desirable_weight, row.desirable_weight) << row.method;
    EXPECT_EQ(preference.undesirable_weight, row.desirable_weight) << row.method;
  }
  EXPECT_TRUE(PreferenceSpecOf("sft").preference.loss.empty());
}

TEST(PreferenceTest, SeveralLossesAreAddedWithTheirWeights) {
  const PreferenceSpec preference =
      PreferenceSpecOf("dpo",
                       "{loss: [sigmoid, sft], loss_weights: [1, 0.2], beta: 0.05, "
                       "reference: cached}")
          .preference;
  EXPECT_EQ(preference.loss, (std::vector<std::string>{"sigmoid", "sft"}));
  EXPECT_EQ(preference.loss_weights, (std::vector<double>{1, 0.2}));
  EXPECT_EQ(preference.beta, 0.05);
  EXPECT_EQ(preference.reference, "cached");
  EXPECT_EQ(PreferenceSpecOf("dpo", "{loss: [ipo, hinge]}").preference.loss_weights,
            (std::vector<double>{1, 1}));
}

// Invariant config-2.
TEST(PreferenceTest, EffectiveJobParsesToItself) {
  for (const char* method : {"sft", "dpo", "orpo", "cpo", "simpo", "kto"}) {
    const ParsedJob job = PreferenceJob(method);
    const ParsedJob again = ParseJob(job.effective_json, "/elsewhere");
    EXPECT_TRUE(again.errors.empty()) << FormatErrors(again.errors, method);
    EXPECT_EQ(again.effective_json, job.effective_json) << method;
  }
}

TEST(PreferenceTest, RatesAreThoseOfPreferences) {
  EXPECT_EQ(PreferenceSpecOf("dpo").train.learning_rate, 1e-6);
  EXPECT_EQ(PreferenceSpecOf("kto", "{}", "  adapter: lora\n").train.learning_rate, 1e-5);
  EXPECT_EQ(PreferenceSpecOf("sft").train.learning_rate, 2e-5);
}

TEST(PreferenceTest, ABinHasRoomForAUnit) {
  const std::string length = "  sequence_len: 256\n";
  const JobSpec pairs = PreferenceSpecOf("dpo", "{}", length);
  EXPECT_EQ(DocumentsPerUnit(pairs), 2);
  EXPECT_EQ(BinCapacity(pairs), 512);
  EXPECT_EQ(BinCapacity(PreferenceSpecOf("kto", "{}", length)), 512);
  EXPECT_EQ(BinCapacity(PreferenceSpecOf("kto", "{loss: apo_zero_unpaired}", length)), 256);
  EXPECT_EQ(BinCapacity(PreferenceSpecOf("sft", "{}", length)), 256);
  const std::string longer = "  sequence_len: 4096\n";
  EXPECT_EQ(PreferenceSpecOf("dpo", "{}", longer).packing.max_documents_per_bin, 128);
  EXPECT_EQ(PreferenceSpecOf("sft", "{}", longer).packing.max_documents_per_bin, 64);
}

TEST(PreferenceTest, WhatAMethodDoesNotReadIsRefusedByName) {
  const struct {
    const char* method;
    const char* preference;
    const char* more;
    const char* path;
    const char* message;
  } cases[] = {
      {"sft", "{beta: 0.1}", "", "spec.preference.beta",
       "goes with method dpo, orpo, cpo, simpo, kto; method is sft"},
      {"dpo", "{gamma: 1}", "", "spec.preference.gamma", "goes with method simpo; method is dpo"},
      {"dpo", "{nll_weight: 1}", "", "spec.preference.nll_weight",
       "Add the loss sft, with its factor in loss_weights"},
      {"orpo", "{label_smoothing: 0.1}", "", "spec.preference.label_smoothing",
       "goes with method dpo, cpo, simpo; method is orpo"},
      {"dpo", "{desirable_weight: 2}", "", "spec.preference.desirable_weight", "method kto"},
      {"dpo", "{loss: kto}", "", "spec.preference.loss",
       "kto goes with method kto; method dpo has sigmoid, cdpo"},
      {"cpo", "{loss: simpo}", "", "spec.preference.loss", "simpo goes with method simpo"},
      {"cpo", "{loss: [hinge, ipo]}", "", "spec.preference.loss",
       "names 2 losses; method cpo has one at a time"},
      {"dpo", "{loss: aot}", "", "spec.preference.loss", "aot is not supported yet"},
      {"dpo", "{loss: [ipo, ipo]}", "", "spec.preference.loss", "ipo is named twice"},
      {"dpo", "{loss: []}", "", "spec.preference.loss", "at least one word"},
      {"dpo", "{loss: [sigmoid, sft], loss_weights: [1]}", "", "spec.preference.loss_weights",
       "has 1 numbers, and loss names 2 losses"},
      {"dpo", "{loss_weights: [-1]}", "", "spec.preference.loss_weights", "out of range"},
      {"dpo", "{loss_weights: 1}", "", "spec.preference.loss_weights", "a list of numbers"},
      {"dpo", "{label_smoothing: 0.1}", "", "spec.preference.label_smoothing",
       "With sigmoid, TRL ignores it: for conservative DPO give loss: cdpo"},
      {"cpo", "{loss: ipo, label_smoothing: 0.1}", "", "spec.preference.label_smoothing",
       "acts on loss: sigmoid"},
      {"dpo", "{loss: robust, label_smoothing: 0.5}", "", "spec.preference.label_smoothing",
       "out of range"},
      {"dpo", "{reference: none}", "", "spec.preference.reference",
       "method dpo compares with a reference"},
      {"simpo", "{reference: start}", "", "spec.preference.reference",
       "method simpo has no reference"},
      {"dpo", "{reference: base}", "", "spec.preference.reference", "adapter is none; give start"},
      {"dpo", "{}", "  train: {label_smoothing: 0.1}\n", "spec.train.label_smoothing",
       "smooths by preference.label_smoothing"},
      {"kto", "{}", "  train: {z_loss: 1.0e-4}\n", "spec.train.z_loss",
       "is of the loss of sft and pretrain; method is kto"},
      {"dpo", "{}", "  train_on_inputs: true\n", "spec.train_on_inputs",
       "compares whole completions"},
      {"dpo", "{}", "  train_on: last\n", "spec.train_on", "goes with method sft"},
      {"dpo", "{}", "  excess_length: split\n", "spec.excess_length",
       "give truncate, drop or error"},
      {"dpo", "{}", "  packing: {max_documents_per_bin: 1}\n", "spec.packing.max_documents_per_bin",
       "keeps two documents in a bin"},
      {"reward", "{beta: 0.1}", "", "spec.preference.beta",
       "goes with method dpo, orpo, cpo, simpo, kto; method is reward"},
      {"ipo", "{}", "", "spec.method", "that is dpo with preference.loss: ipo here"},
      {"dpo", "{loss: rpo}", "", "spec.preference.loss", "that is [sigmoid, sft] with"},
      {"dpo", "{}", "  test_datasets: [{path: ./a.jsonl, format: chat}]\n",
       "spec.test_datasets[0].format", "method dpo reads format: preference, got chat"},
      {"dpo", "{}", "  test_datasets: [{path: ./a.jsonl, format: unpaired_preference}]\n",
       "spec.test_datasets[0].format", "reads format: preference, got unpaired_preference"},
      {"sft", "{}", "  test_datasets: [{path: ./a.jsonl, format: preference}]\n",
       "spec.test_datasets[0].format",
       "preference goes with method dpo, orpo, cpo, simpo, kto, reward; method is sft"},
  };
  for (const auto& c : cases) {
    const ParsedJob job = PreferenceJob(c.method, c.preference, c.more);
    ASSERT_EQ(job.errors.size(), 1u)
        << c.method << c.preference << c.more << FormatErrors(job.errors, "job.yaml");
    EXPECT_EQ(job.errors[0].path, c.path);
    EXPECT_GT(job.errors[0].line, 0);
    EXPECT_NE(job.errors[0].message.find(c.message), std::string::npos) << job.errors[0].message;
  }
}

TEST(PreferenceTest, WhatActsIsAccepted) {
  PreferenceSpecOf("dpo", "{loss: [cdpo, sft], label_smoothing: 0.1}");
  PreferenceSpecOf("cpo", "{label_smoothing: 0.1}");
  PreferenceSpecOf("simpo", "{nll_weight: 0.5, label_smoothing: 0.1, reference: none}");
  PreferenceSpecOf("dpo", "{reference: base}", "  adapter: lora\n");
  PreferenceSpecOf("kto", "{loss: apo_zero_unpaired}", "  packing: {max_documents_per_bin: 1}\n");
}

TEST(PreferenceTest, FormatsAreThoseOfTheMethod) {
  const auto format = [](const char* method) {
    return PreferenceSpecOf(method).datasets.front().format;
  };
  EXPECT_EQ(format("orpo"), DatasetFormat::kPreference);
  EXPECT_EQ(format("kto"), DatasetFormat::kUnpairedPreference);
  EXPECT_EQ(format("sft"), DatasetFormat::kAuto);
}

TEST(PreferenceTest, RecipeKeysAreThoseThatTheMethodReads) {
  const auto keys = [](const char* method) {
    return DecidingKeys(PreferenceJob(method).effective_json);
  };
  EXPECT_EQ(keys("sft").count("preference.beta"), 0u);
  EXPECT_EQ(keys("dpo").at("preference.beta"), "0.1");
  EXPECT_EQ(keys("dpo").at("preference.loss"), "[\"sigmoid\"]");
  EXPECT_EQ(keys("dpo").count("preference.gamma"), 0u);
}

}  // namespace
}  // namespace coxswain::config
