#include "common/config/schema/recipe_keys.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"

namespace coxswain::config {
namespace {

std::string JobOf(const std::string& spec, const std::string& train = "") {
  const ParsedJob job = ParseJob(absl::StrCat(R"(
apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: tiny}
spec:
  base_model: /model
  datasets: [{path: /data.jsonl}]
  resources: {device: cpu}
  train: {learning_rate: 1.0e-4, )",
                                              train, "}\n", spec),
                                 "/");
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  return job.effective_json;
}

TEST(RecipeKeysTest, DifferencesNameTheKeyAndBothValues) {
  const KeyValues there = RecipeKeys(JobOf("  adapter: lora\n  lora: {r: 8}\n"));
  const KeyValues here =
      RecipeKeys(JobOf("  adapter: lora\n  lora: {r: 16}\n", "weight_decay: 0.5"));
  EXPECT_EQ(Differences(there, here),
            absl::StrCat("lora.r is 8 there and 16 here, train.weight_decay is ",
                         there.at("train.weight_decay"), " there and 0.5 here"));
  EXPECT_EQ(Differences(there, there), "");
}

TEST(RecipeKeysTest, OrderOfFieldsMakesNoDifference) {
  const KeyValues there = RecipeKeys(R"({"spec": {"adapter": "none", "packing":
      {"max_documents_per_bin": 32, "strategy": "best_fit"}}})");
  const KeyValues here = RecipeKeys(R"({"spec": {"adapter": "none", "packing":
      {"strategy": "best_fit", "max_documents_per_bin": 32}}})");
  EXPECT_EQ(there.count("packing"), 1u);
  EXPECT_EQ(Differences(there, here), "");
}

TEST(RecipeKeysTest, WhatTheJobDoesNotReadDecidesNothing) {
  EXPECT_EQ(DecidingKeys(JobOf("  adapter: none\n")).count("lora.r"), 0u);
  EXPECT_EQ(DecidingKeys(JobOf("")).count("base_model.seed"), 0u);
  const std::string started = JobOf("  adapter: lora\n  lora: {init_from: /adapter}\n");
  EXPECT_EQ(DecidingKeys(started).count("lora.r"), 0u);
  EXPECT_EQ(RecipeKeys(started).count("lora.r"), 1u);
}

TEST(RecipeKeysTest, LengthAndBatchDecideOnlyWhereTheJobGivesThem) {
  const KeyValues keys = DecidingKeys(JobOf("", "global_batch_size: 4, num_epochs: 2"));
  EXPECT_EQ(keys.at("train.global_batch_size"), "4");
  EXPECT_EQ(keys.count("train.num_epochs"), 0u);
  EXPECT_EQ(DecidingKeys(JobOf("")).count("train.global_batch_size"), 0u);
}

TEST(RecipeKeysTest, WhatIsNoJobHasNoKeys) {
  for (const char* text : {"", "[]", "{}"}) EXPECT_TRUE(RecipeKeys(text).empty()) << text;
}

}  // namespace
}  // namespace coxswain::config
