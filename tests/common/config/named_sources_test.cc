// Names of the Hub and URLs in a job.
#include "common/config/named_sources.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "common/config/parser/pinned_sources.h"
#include "common/config/parser/stored_job.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::config {
namespace {

std::string SourcesJob(const std::string& model, const std::string& dataset) {
  return "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n"
         "  base_model: " +
         model + "\n  datasets: [" + dataset + "]\n";
}

ParsedJob ParseSources(const std::string& model, const std::string& dataset,
                       const std::string& base_dir = "/nowhere") {
  return ParseJob(SourcesJob(model, dataset), base_dir);
}

void ExpectSourceError(const std::string& model, const std::string& dataset,
                       const std::string& path, const std::string& text) {
  const ParsedJob job = ParseSources(model, dataset);
  ASSERT_EQ(job.errors.size(), 1u) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.errors[0].path, path);
  EXPECT_NE(job.errors[0].message.find(text), std::string::npos) << job.errors[0].message;
}

TEST(NamedSourcesTest, OwnerAndNameReadAsAHubId) {
  for (const char* id : {"Qwen/Qwen2.5-0.5B", "tatsu-lab/alpaca", "a/b"}) {
    EXPECT_TRUE(ReadsAsHubId(id)) << id;
  }
  for (const char* path : {"model", "/models/a", "./a/b", "../b", "a/b/c", "a/", "/a", "a/b.jsonl",
                           "a/b.json.gz", "data/*", "~/m", "$HOME/m", "hub:a/b", "a b/c"}) {
    EXPECT_FALSE(ReadsAsHubId(path)) << path;
  }
}

TEST(NamedSourcesTest, NamesUrlsAndPathsAreToldApart) {
  ParsedJob job = ParseSources("org/model", "{path: org/data, name: main, split: 'train[:10]'}");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.spec.model_hub.id, "org/model");
  EXPECT_EQ(job.spec.model_path, "");
  EXPECT_EQ(job.spec.datasets[0].hub.id, "org/data");
  EXPECT_EQ(job.spec.datasets[0].name, "main");
  job = ParseSources("{hub: gpt2, revision: v1}", "{path: 'https://x/y.jsonl'}");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.spec.model_hub.id, "gpt2");
  EXPECT_EQ(job.spec.model_hub.revision, "v1");
  EXPECT_EQ(job.spec.datasets[0].url, "https://x/y.jsonl");
  job = ParseSources("./org/model", "{path: data/a.jsonl}");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  EXPECT_EQ(job.spec.model_path, "/nowhere/org/model");
  EXPECT_EQ(job.spec.datasets[0].path, "/nowhere/data/a.jsonl");
}

TEST(NamedSourcesTest, WhatExistsIsAPath) {
  const support::ScratchFolder folder;
  std::filesystem::create_directories(folder.path() + "/org/model");
  const ParsedJob here = ParseSources("org/model", "{path: org/model}", folder.path());
  ASSERT_TRUE(here.errors.empty()) << FormatErrors(here.errors, "job.yaml");
  EXPECT_EQ(here.spec.model_path, folder.path() + "/org/model");
  EXPECT_EQ(here.spec.datasets[0].path, folder.path() + "/org/model");
  EXPECT_EQ(here.spec.model_hub.id, "");
  // A controller elsewhere does not see this folder.
  YamlTree tree = ParseYaml(SourcesJob("org/model", "{path: org/model}"));
  NameSources(/*base_dir=*/"", &tree.root);
  const std::string named = EmitBlockYaml(tree.root);
  EXPECT_NE(named.find("hub: org/model"), std::string::npos) << named;
  EXPECT_EQ(named.find("path: org/model"), std::string::npos) << named;
}

TEST(NamedSourcesTest, WhatDoesNotGoTogetherIsRefusedByItsKey) {
  ExpectSourceError("./m", "{format: alpaca}", "spec.datasets[0].path", "missing; A file");
  ExpectSourceError("{name: x}", "{path: ./d}", "spec.base_model.path", "missing; Folder with");
  ExpectSourceError("{path: ./m, revision: v1}", "{path: ./d}", "spec.base_model.revision",
                    "repository of the Hub");
  ExpectSourceError("./m", "{path: ./d, name: main}", "spec.datasets[0].name",
                    "repository of the Hub");
  ExpectSourceError("./m", "{path: ./d, converted: true}", "spec.datasets[0].converted",
                    "dataset of the Hub");
  ExpectSourceError("./m", "{hub: a/b, url: 'https://x/y'}", "spec.datasets[0].url", "excludes");
  ExpectSourceError("./m", "{url: 'https://x/y', data_files: [a]}", "spec.datasets[0].data_files",
                    "file of a URL");
  ExpectSourceError("{hub: '../etc'}", "{path: ./d}", "spec.base_model.hub", "../etc");
  ExpectSourceError("{hub: a/b, revision: '../x'}", "{path: ./d}", "spec.base_model.hub", "../x");
  ExpectSourceError("s3://bucket/m", "{path: ./d}", "spec.base_model.path", "mount the bucket");
}

TEST(NamedSourcesTest, AnAcceptedJobKeepsItsPlaces) {
  ParsedJob job = ParseSources("org/model", "{path: org/data}, {path: ./local}");
  ASSERT_TRUE(job.errors.empty()) << FormatErrors(job.errors, "job.yaml");
  job.spec.model_path = "/cache/m";
  job.spec.model_hub.revision = "0123";
  job.spec.datasets[0].path = "/cache/d";
  job.spec.datasets[0].hub.revision = "4567";
  job.spec.datasets[0].converted = true;
  WriteSources(&job);
  const ParsedJob stored = ReadStoredJob(job.effective_json, "", "/");
  ASSERT_TRUE(stored.errors.empty()) << FormatErrors(stored.errors, "job.yaml");
  EXPECT_EQ(stored.spec.model_path, "/cache/m");
  EXPECT_EQ(stored.spec.model_hub.id, "org/model");
  EXPECT_EQ(stored.spec.model_hub.revision, "0123");
  EXPECT_EQ(stored.spec.datasets[0].path, "/cache/d");
  EXPECT_EQ(stored.spec.datasets[0].hub.revision, "4567");
  EXPECT_TRUE(stored.spec.datasets[0].converted);
  EXPECT_EQ(stored.spec.datasets[1].path, "/nowhere/local");
  ParsedJob again = ParseSources("org/model", "{path: org/data}, {path: ./local}");
  CopySources(stored.spec, &again);
  EXPECT_EQ(again.effective_json, job.effective_json);
}

}  // namespace
}  // namespace coxswain::config
