#include "common/config/parser/override.h"

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "common/config/yaml_tree.h"
#include "tests/common/config/job_text.h"

namespace coxswain::config {
namespace {

JobSpec Override(const std::string& yaml, const std::vector<std::string>& settings) {
  const auto text = OverrideJob(yaml, settings);
  EXPECT_TRUE(text.ok()) << text.status();
  const ParsedJob job = ParseJob(text.value_or(""), "/jobs");
  EXPECT_TRUE(job.errors.empty()) << *text << FormatErrors(job.errors, "job.yaml");
  return job.spec;
}

TEST(OverrideTest, AShortFormStaysWhereAKeyIsSetBesideIt) {
  const auto set =
      OverrideJob("spec:\n  base_model: org/tiny\n  export: {push_to_hub: org/tuned}\n",
                  {"base_model.revision=v1", "export.push_to_hub.private=false"});
  ASSERT_TRUE(set.ok()) << set.status();
  const std::string text = EmitBlockYaml(ParseYaml(*set).root);
  EXPECT_NE(text.find("path: org/tiny"), std::string::npos) << text;
  EXPECT_NE(text.find("revision: v1"), std::string::npos) << text;
  EXPECT_NE(text.find("repo: org/tuned"), std::string::npos) << text;
  EXPECT_NE(text.find("private: false"), std::string::npos) << text;
}

TEST(OverrideTest, SetsReplacesAndMakesKeys) {
  const JobSpec job = Override(kFullJob, {"spec.train.max_steps=4", "train.num_epochs=null",
                                          "metadata.name=other", "spec.datasets.0.weight=2",
                                          "train.betas=[0.5, 0.6]", "checkpoint.output_dir=./a b"});
  EXPECT_EQ(job.train.max_steps, 4);
  EXPECT_EQ(job.train.num_epochs, std::nullopt);
  EXPECT_EQ(job.name, "other");
  EXPECT_EQ(job.datasets[0].weight, 2.0);
  EXPECT_EQ(job.train.beta2, 0.6);
  EXPECT_EQ(job.output_dir, "/jobs/a b");
  EXPECT_EQ(Override(kSmallJob, {"lora.r=4"}).lora.r, 4);
}

TEST(OverrideTest, KeepsEveryOtherValue) {
  const auto text = OverrideJob(kFullJob, {"train.seed=7"});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(ParseJob(*text, "/jobs").effective_json, ParseJob(kFullJob, "/jobs").effective_json);
}

TEST(OverrideTest, WithoutSettingsReturnsTheText) { EXPECT_EQ(*OverrideJob("a: [1", {}), "a: [1"); }

TEST(OverrideTest, ErrorsKeepTheirLines) {
  const std::string yaml =
      WithSpec("  # a comment\n\n  train:\n    seed: \"7\"\n    zzz: 1\n  sequence_len: 1\n");
  const auto text = OverrideJob(yaml, {"train.max_steps=4"});
  ASSERT_TRUE(text.ok());
  const std::string before = FormatErrors(ParseJob(yaml, "/jobs").errors, "job.yaml");
  EXPECT_EQ(FormatErrors(ParseJob(*text, "/jobs").errors, "job.yaml"), before);
  EXPECT_NE(before.find("job.yaml:10: spec.train.seed"), std::string::npos) << before;
}

TEST(OverrideTest, RefusesBadSettings) {
  for (const char* setting :
       {"novalue", "=4", "a..b=1", "datasets.7.weight=1", "datasets.x.weight=1", "train.seed=[1"}) {
    const auto text = OverrideJob(kFullJob, {setting});
    EXPECT_FALSE(text.ok()) << setting;
    EXPECT_NE(std::string(text.status().message()).find(setting), std::string::npos);
  }
}

TEST(YamlTreeTest, EmittedTextParsesToTheSameTree) {
  const std::string yaml =
      "a: \"1\"\nb: [x y, 'q\"uo\\te', -5, \"\"]\nc:\n  d: null\n  \"e f\": {}\n\ng: |\n  line\n  "
      "two\n";
  const std::string once = EmitYaml(ParseYaml(yaml).root);
  EXPECT_EQ(EmitYaml(ParseYaml(once).root), once);
  EXPECT_NE(once.find("\"1\""), std::string::npos) << once;
  const std::string block = EmitBlockYaml(ParseYaml(yaml).root);
  EXPECT_EQ(block,
            "a: \"1\"\nb:\n  - \"x y\"\n  - \"q\\\"uo\\\\te\"\n  - -5\n  - \"\"\nc:\n  d: null\n"
            "  \"e f\": {}\ng: \"line\\ntwo\"\n");
  EXPECT_EQ(EmitBlockYaml(ParseYaml(block).root), block);
  const std::string maps = "a:\n  - b: 1\n    c:\n      - - 2\n        - []\n  - d: x\n";
  EXPECT_EQ(EmitBlockYaml(ParseYaml(maps).root), maps);
}

}  // namespace
}  // namespace coxswain::config
