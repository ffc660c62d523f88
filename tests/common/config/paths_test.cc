// The one rule for the paths of a job, and what cox replaces in them.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "common/config/local_path.h"
#include "common/config/parser/expand_paths.h"
#include "common/config/parser/job_parser.h"
#include "tests/common/config/job_text.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::config {
namespace {

constexpr PathUse kUses[] = {PathUse::kRead, PathUse::kHub, PathUse::kWritten};

bool Refuses(const std::string& text, const std::string& base_dir, PathUse use,
             const std::string& why) {
  const auto path = ResolveLocalPath(text, base_dir, use);
  return !path.ok() && std::string(path.status().message()).find(why) != std::string::npos;
}

TEST(PathsTest, WhatExistsIsAPathWhateverItLooksLike) {
  const support::ScratchFolder folder;
  for (const char* name : {"org/model", "~backup", "$HOME", "${a}.jsonl"}) {
    std::filesystem::create_directories(folder.path() + "/" + name);
    for (const PathUse use : kUses) {
      EXPECT_EQ(*ResolveLocalPath(name, folder.path(), use), folder.path() + "/" + name);
    }
    EXPECT_EQ(ExpandPath(name, folder.path()), name);
  }
}

TEST(PathsTest, OnlyWhatIsReadOfTheHubElsewhereReadsAsAHubId) {
  EXPECT_TRUE(
      Refuses("org/model", "/nowhere", PathUse::kHub, "download it first (cox pull org/model)"));
  EXPECT_EQ(*ResolveLocalPath("org/model", "/nowhere", PathUse::kRead), "/nowhere/org/model");
  EXPECT_EQ(*ResolveLocalPath("runs/out", "/nowhere", PathUse::kWritten), "/nowhere/runs/out");
  EXPECT_EQ(*ResolveLocalPath("./org/model", "/nowhere", PathUse::kHub), "/nowhere/org/model");
  EXPECT_EQ(*ResolveLocalPath("data/a.jsonl", "/nowhere", PathUse::kHub), "/nowhere/data/a.jsonl");
  const ParsedJob job =
      ParseJob(WithSpec("  checkpoint: {output_dir: runs/out, resume: runs/checkpoint-2}\n"
                        "  chat_template: templates/chat.jinja\n"),
               "/jobs");
  EXPECT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.spec.output_dir, "/jobs/runs/out");
}

TEST(PathsTest, EveryUseRefusesTheSame) {
  for (const PathUse use : kUses) {
    for (const char* text : {"~/x", "~ann/x", "$DATA/x", "/a/${DATA}/x", "${env:HOME}"}) {
      EXPECT_TRUE(Refuses(text, "/nowhere", use, "not expanded")) << text;
    }
    EXPECT_TRUE(Refuses("s3://bucket/x", "/nowhere", use, "is a URL")) << "s3";
    EXPECT_TRUE(Refuses("a/b/c", "", use, "give an absolute path"));
    EXPECT_EQ(*ResolveLocalPath("/prices/a$1", "/nowhere", use), "/prices/a$1");
  }
}

TEST(ExpandPathTest, ReplacesHomeAndVariablesThatAreSet) {
  setenv("HOME", "/home/ann", 1);
  setenv("COXSWAIN_TEST_DATA", "/data", 1);
  unsetenv("COXSWAIN_TEST_NONE");
  const std::pair<const char*, const char*> cases[] = {
      {"~", "/home/ann"},
      {"~/m", "/home/ann/m"},
      {"$HOME/m", "/home/ann/m"},
      {"${COXSWAIN_TEST_DATA}/a/$COXSWAIN_TEST_DATA", "/data/a//data"},
      {"x/${COXSWAIN_TEST_DATA}y", "x//datay"},
      {"./~/m", "./~/m"},
      {"~ann/m", "~ann/m"},
      {"$COXSWAIN_TEST_NONE/m", "$COXSWAIN_TEST_NONE/m"},
      {"~/$COXSWAIN_TEST_NONE", "~/$COXSWAIN_TEST_NONE"},
      {"${HOME", "${HOME"},
      {"${env:HOME}/m", "${env:HOME}/m"},
      {"a$1", "a$1"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(ExpandPath(text, "/nowhere"), expected);
}

TEST(ExpandPathTest, ReachesEveryPathKeyOfAJobAndNothingElse) {
  setenv("HOME", "/home/ann", 1);
  const std::string yaml =
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n"
      "  base_model: ~/model\n  datasets: [{path: $HOME/train.jsonl}]\n"
      "  test_datasets:\n    - path: ${HOME}/test.jsonl\n"
      "  lora: {init_from: ~/adapter}\n  adapter: lora\n  chat_template: ~/chat.jinja\n"
      "  eval: {sample_prompts: ['What is ~/ and $HOME?']}\n"
      "  checkpoint: {output_dir: ~/out, resume: $HOME/out/checkpoint-2}\n";
  const std::string expanded = ExpandPaths(yaml, "/jobs");
  const ParsedJob job = ParseJob(expanded, "/jobs");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.spec.model_path, "/home/ann/model");
  EXPECT_EQ(job.spec.output_dir, "/home/ann/out");
  EXPECT_EQ(job.effective_json.find("~/m"), std::string::npos) << job.effective_json;
  for (const char* path : {"/home/ann/train.jsonl", "/home/ann/test.jsonl", "/home/ann/adapter",
                           "/home/ann/chat.jinja", "/home/ann/out/checkpoint-2"}) {
    EXPECT_NE(job.effective_json.find(path), std::string::npos) << path;
  }
  EXPECT_NE(job.effective_json.find("What is ~/ and $HOME?"), std::string::npos);
  EXPECT_EQ(job.lines.at("spec.checkpoint.output_dir"), 13) << "values stay on their lines";
  EXPECT_EQ(ExpandPaths(kSmallJob, "/jobs"), kSmallJob) << "nothing to replace, nothing rewritten";
  EXPECT_EQ(ExpandPaths("a: [1", "/jobs"), "a: [1");
}

}  // namespace
}  // namespace coxswain::config
