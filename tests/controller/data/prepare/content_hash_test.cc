#include "controller/data/prepare/content_hash.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "common/config/parser/stored_job.h"
#include "common/files/hash.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kContents[] = "{\"messages\": []}\n";

class ContentHashTest : public testing::Test {
 protected:
  std::string JobText(const std::string& more) const {
    return "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: j}\nspec:\n"
           "  base_model: /model\n  resources: {device: cpu}\n"
           "  train: {learning_rate: 1.0e-4, max_steps: 1}\n  sequence_len: 512\n"
           "  chat_template: chatml\n  datasets: [{path: " +
           path_ + ", format: chat}]\n" + more;
  }

  static std::string HashOf(const config::JobSpec& job, const std::string& chat_template,
                            const std::vector<std::string>& ends = {}) {
    const auto hash = ContentHash(job, "tok", chat_template, ends, {});
    EXPECT_TRUE(hash.ok()) << hash.status();
    return hash.value_or("");
  }
  std::string HashOfText(const std::string& more) const {
    const config::ParsedJob job = config::ParseJob(JobText(more), "/");
    EXPECT_TRUE(job.errors.empty()) << job.errors[0].message;
    return HashOf(job.spec, "chatml");
  }

  support::ScratchFolder scratch_;
  const std::string path_ = scratch_.Write("data.jsonl", kContents);
};

// What releases before chat_template: auto wrote: a job of theirs finds its prepared data, and its
// checkpoints, under the same name.
TEST_F(ContentHashTest, AJobOfAnEarlierReleaseKeepsItsName) {
  const config::ParsedJob parsed = config::ParseJob(JobText(""), "/");
  ASSERT_TRUE(parsed.errors.empty()) << parsed.errors[0].message;
  OrderedJson stored = OrderedJson::parse(parsed.effective_json);
  for (const char* key :
       {"chat_template_kwargs", "roles_to_train", "train_on", "train_on_eos", "data_rules"}) {
    ASSERT_EQ(stored["spec"].erase(key), 1u) << key;
  }
  OrderedJson& dataset = stored["spec"]["datasets"][0];
  dataset = {{"path", dataset["path"]},
             {"format", "chat"},
             {"prompt_style", "alpaca"},
             {"weight", dataset["weight"]}};
  const config::ParsedJob job = config::ReadStoredJob(stored.dump(), JobText(""), "/");
  ASSERT_TRUE(job.errors.empty()) << job.errors[0].message;
  EXPECT_EQ(job.spec.data_rules, 1);
  EXPECT_EQ(job.spec.datasets[0].fields.system, "");
  EXPECT_EQ(job.spec.datasets[0].fields.history, "");
  EXPECT_EQ(job.spec.datasets[0].fields.tools, "");
  const std::string described =
      R"({"chat_template":"chatml","datasets":[{"format":1,"prompt_style":0,"sha256":")" +
      ToHex(Sha256(kContents)) +
      R"(","weight":1.0}],"excess_length":0,"on_bad_record":0,"sequence_len":512,)"
      R"("test_datasets":[],"tokenizer":"tok","train_on_inputs":false,"val_set_size":0.0,)"
      R"("version":1})";
  EXPECT_EQ(HashOf(job.spec, "chatml"), ToHex(Sha256(described)));
  EXPECT_EQ(HashOf(job.spec, "chatml", {"<|im_end|>"}), ToHex(Sha256(described)));
}

TEST_F(ContentHashTest, TheEndsOfTheModelChangeTheName) {
  const config::ParsedJob job = config::ParseJob(JobText(""), "/");
  const std::string none = HashOf(job.spec, "chatml");
  const std::string one = HashOf(job.spec, "chatml", {"<|im_end|>"});
  EXPECT_NE(one, none);
  EXPECT_NE(HashOf(job.spec, "chatml", {"<|endoftext|>", "<|im_end|>"}), one);
}

TEST_F(ContentHashTest, EveryKeyThatChangesTokensChangesTheName) {
  const std::string usual = HashOfText("");
  EXPECT_EQ(HashOfText("  train_on: all\n"), usual);
  for (const char* key :
       {"  train_on: last\n", "  train_on_eos: none\n", "  roles_to_train: [user]\n",
        "  chat_template_kwargs: {a: 1}\n", "  train_on_inputs: true\n"}) {
    EXPECT_NE(HashOfText(key), usual) << key;
  }
  config::JobSpec job = config::ParseJob(JobText(""), "/").spec;
  EXPECT_NE(HashOf(job, "{{ messages }}"), usual);
  job.datasets[0].fields.roles = {{"customer", "user"}};
  const std::string roles = HashOf(job, "chatml");
  EXPECT_NE(roles, usual);
  job.datasets[0].fields.content = "says";
  EXPECT_NE(HashOf(job, "chatml"), roles);
  job.datasets[0].max_samples = 1;
  EXPECT_NE(HashOf(job, "chatml"), roles);
  job = config::ParseJob(JobText(""), "/").spec;
  job.datasets[0].split = "train";
  EXPECT_EQ(HashOf(job, "chatml"), usual);
  job.datasets[0].split = "train[:1]";
  const std::string first = HashOf(job, "chatml");
  EXPECT_NE(first, usual);
  job.datasets[0].split = "train[:1%]";
  EXPECT_NE(HashOf(job, "chatml"), first);
  job = config::ParseJob(JobText(""), "/").spec;
  job.datasets[0].special_tokens = config::SpecialTokens::kContent;
  EXPECT_NE(HashOf(job, "chatml"), usual);
  job.datasets[0].special_tokens = config::SpecialTokens::kAuto;
  job.added_tokens = {"<glad>"};
  EXPECT_NE(HashOf(job, "chatml"), usual);
}

TEST_F(ContentHashTest, WhatChangesValuesChangesTheName) {
  config::JobSpec job = config::ParseJob(JobText(""), "/").spec;
  std::vector<std::string> names = {HashOf(job, "chatml")};
  const auto another = [&](const char* what) {
    names.push_back(HashOf(job, "chatml"));
    EXPECT_EQ(std::count(names.begin(), names.end(), names.back()), 1) << what;
  };
  job.method = "dpo";
  another("pairs");
  job.method = "reward";
  another("margins");
  job.reward.center_coefficient = 1;
  EXPECT_EQ(HashOf(job, "chatml"), names.back()) << "of the loss alone";
  job.method = "classification";
  job.classification.num_labels = 2;
  another("classes");
  job.classification.num_labels = 3;
  another("number of classes");
  job.classification.label_names = {"a", "b", "c"};
  another("names");
  job.classification.label_names = {"b", "a", "c"};
  another("their order");
  job.classification.problem = "multi_label";
  another("problem");
}

}  // namespace
}  // namespace coxswain::data
