// Names of the Hub, addresses and tokens in the files of the three tools.
#include <filesystem>

#include "tests/controller/cli/import/imports.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::job_import {
namespace {

std::string OfTheHub(const std::string& more) {
  return "base_model: Qwen/Qwen3-8B\nlearning_rate: 1e-4\n" + more;
}

constexpr const char* kHubData = "datasets: [{path: org/set, type: alpaca}]\n";

TEST(HubImportTest, ModelsKeepNameAndRevision) {
  const Tried t = Try(OfTheHub("revision_of_model: 6299b5a\ntokens: ['<a>']\n") + kHubData);
  EXPECT_EQ(t.At("base_model"),
            R"({"hub":"Qwen/Qwen3-8B","revision":"6299b5a","added_tokens":["<a>"]})");
  const Tried trl = Try("model_name_or_path: org/m\nmodel_revision: v2\ndataset_name: org/set\n");
  EXPECT_EQ(trl.At("base_model"), R"({"hub":"org/m","revision":"v2"})");
  const Tried local = Try("model_name_or_path: ./m\nmodel_revision: v2\ndataset_name: org/set\n");
  EXPECT_EQ(local.At("base_model"), R"({"path":"./m"})");
  EXPECT_TRUE(local.Says("model_revision: v2 (only names of the Hub have revisions)"))
      << local.report;
}

// Invariant import-1.
TEST(HubImportTest, NamesOfTheHubAreAValidJob) {
  const Tried t = Try(
      OfTheHub("revision_of_model: v1\n"
               "datasets:\n"
               "  - {path: org/set, name: en, split: 'train[:90%]', revision: v1, type: alpaca}\n"
               "  - {path: org/other, data_dir: sub, data_files: a/b.jsonl, type: alpaca}\n"
               "  - {path: 'https://x.org/c.jsonl', name: en, type: alpaca}\n"
               "  - {path: imdb, type: completion}\n"
               "test_datasets: [{path: org/set, split: test, type: alpaca}]\n"));
  EXPECT_EQ(t.InTheWay(), "");
}

TEST(HubImportTest, NamesWithoutAnOwnerAreNoPaths) {
  EXPECT_EQ(Try(OfTheHub("datasets: [{path: imdb, type: completion}]\n")).At("datasets.0.hub"),
            "\"imdb\"");
}

TEST(HubImportTest, PlaceholdersAreInTheWay) {
  const Tried t =
      Try(OfTheHub("datasets: [{path: <your-dataset>, type: alpaca}]\n"
                   "hub_model_id: <your-model>\n"));
  EXPECT_NE(t.InTheWay().find("path (a placeholder: name your data)"), std::string::npos)
      << t.InTheWay();
  EXPECT_EQ(t.At("export"), "");
}

TEST(HubImportTest, ModulesThatAFamilyLacksAreLeftOut) {
  const std::string more = std::string(kHubData) +
                           "learning_rate: 1e-4\nadapter: lora\nlora_r: 8\nlora_alpha: 8\n"
                           "lora_target_modules: [gate_proj, down_proj, q_proj]\n";
  const Tried glm = Try("base_model: THUDM/GLM-4-32B-0414\n" + more);
  EXPECT_EQ(glm.At("lora.target_modules"), R"(["down_proj","q_proj"])");
  EXPECT_TRUE(glm.Says("(gate_proj: this family has no such linear")) << glm.report;
  EXPECT_EQ(Try("base_model: microsoft/Phi-3-mini\n" + more).At("lora.target_modules"),
            R"(["down_proj"])");
  EXPECT_EQ(Try("base_model: Qwen/Qwen3-8B\n" + more).At("lora.target_modules"),
            R"(["gate_proj","down_proj","q_proj"])");
}

TEST(HubImportTest, WhatLiesHereIsAPath) {
  const support::ScratchFolder folder;
  std::filesystem::create_directories(folder.path() + "/org-set");
  const Tried t =
      Try(OfTheHub("datasets: [{path: org-set, name: en, type: alpaca}]\n"), folder.path());
  EXPECT_EQ(t.At("datasets.0.path"), "\"./org-set\"");
  EXPECT_EQ(t.At("datasets.0.data_files"), R"(["en/*"])");
}

TEST(HubImportTest, SourcesOfAxolotlKeepTheirPlace) {
  const Tried t = Try(OfTheHub(
      "datasets:\n"
      "  - {path: org/set, name: [en, de], split: 'train[:90%]', revision: v1, type: alpaca}\n"
      "  - {path: org/other, data_dir: sub, data_files: a/b.jsonl, ds_type: json, type: alpaca}\n"
      "  - {path: json, data_files: ['https://x.org/a.jsonl', data/b.jsonl], type: alpaca}\n"
      "  - {path: 'https://x.org/c.jsonl', ds_type: json, revision: v1, type: alpaca}\n"));
  EXPECT_EQ(t.At("datasets.0.path"), "\"org/set\"");
  EXPECT_EQ(t.At("datasets.0.name"), "\"en\"");
  EXPECT_EQ(t.At("datasets.0.split"), "\"train[:90%]\"");
  EXPECT_EQ(t.At("datasets.0.revision"), "\"v1\"");
  EXPECT_EQ(t.At("datasets.1.name"), "\"de\"");
  EXPECT_EQ(t.At("datasets.2.data_dir"), "\"sub\"");
  EXPECT_EQ(t.At("datasets.2.data_files"), R"(["a/b.jsonl"])");
  EXPECT_EQ(t.At("datasets.3.path"), "\"https://x.org/a.jsonl\"");
  EXPECT_EQ(t.At("datasets.3.data_files"), "");
  EXPECT_EQ(t.At("datasets.4.path"), "\"./data/b.jsonl\"");
  EXPECT_EQ(t.At("datasets.5.path"), "\"https://x.org/c.jsonl\"");
  EXPECT_EQ(t.At("datasets.5.revision"), "");
}

TEST(HubImportTest, SourcesOfLlamaFactoryAndTrlKeepTheirPlace) {
  const support::ScratchFolder folder;
  folder.Write("dataset_info.json",
               R"({"d": {"hf_hub_url": "org/set", "subset": "en", "folder": "sub"}})");
  const Tried factory = Try("stage: sft\nmodel_name_or_path: org/m\ndataset: d\n", folder.path());
  EXPECT_EQ(factory.At("datasets.0.name"), "\"en\"");
  EXPECT_EQ(factory.At("datasets.0.data_dir"), "\"sub\"");
  EXPECT_EQ(factory.At("datasets.0.split"), "\"train\"");
  const Tried trl =
      Try("model_name_or_path: org/m\nuse_peft: true\ndatasets:\n"
          "  - {path: org/a, name: en, data_dir: sub, data_files: [x.jsonl], split: test}\n");
  EXPECT_EQ(trl.At("datasets.0.name"), "\"en\"");
  EXPECT_EQ(trl.At("datasets.0.data_dir"), "\"sub\"");
  EXPECT_EQ(trl.At("datasets.0.data_files"), R"(["x.jsonl"])");
}

TEST(HubImportTest, PushesGoToTheRepository) {
  const Tried t = Try(OfTheHub("hub_model_id: me/out\nhub_strategy: every_save\n") + kHubData);
  EXPECT_EQ(t.At("export.push_to_hub"), R"({"repo":"me/out"})");
  EXPECT_TRUE(t.Says("hub_strategy: every_save (the export is sent once")) << t.report;
  const std::string trl = "model_name_or_path: org/m\ndataset_name: org/set\n";
  EXPECT_EQ(Try(trl + "push_to_hub: true\nhub_model_id: me/out\nhub_private_repo: false\n"
                      "hub_revision: v3\n")
                .At("export.push_to_hub"),
            R"({"repo":"me/out","private":false,"revision":"v3"})");
  const Tried off = Try(trl + "push_to_hub: false\nhub_model_id: me/out\n");
  EXPECT_EQ(off.At("export"), "");
  EXPECT_TRUE(off.Says("left out: hub_model_id: me/out (nothing is sent)")) << off.report;
  const Tried nameless = Try(trl + "push_to_hub: true\n");
  EXPECT_TRUE(nameless.Says("differs: push_to_hub: true (say the repository")) << nameless.report;
}

TEST(HubImportTest, TokensAreLeftOutAndNotShown) {
  const Tried t = Try("model_name_or_path: org/m\ndataset_name: org/set\nhub_token: hf_secret\n");
  EXPECT_TRUE(t.Says("left out: hub_token: (not shown) (tokens come from HF_TOKEN")) << t.report;
  EXPECT_FALSE(t.Says("hf_secret"));
  EXPECT_EQ(t.imported.yaml.find("hf_secret"), std::string::npos);
  EXPECT_TRUE(Try(OfTheHub("hf_use_auth_token: true\n") + kHubData)
                  .Says("left out: hf_use_auth_token: (not shown) (tokens come from"));
}

TEST(HubImportTest, IsForeignTellsTheToolsFilesFromJobs) {
  EXPECT_TRUE(IsForeign(OfTheHub(kHubData)));
  EXPECT_TRUE(IsForeign("stage: sft\n"));
  EXPECT_TRUE(IsForeign("trl sft --model_name_or_path m --dataset_name d\n"));
  for (const char* text :
       {"apiVersion: coxswain/v1\nbase_model: m\n", "kind: FineTuneJob\nbase_model: m\n",
        "spec: {}\nbase_model: m\n", "some: thing\n", "- a\n", "", "stage: sft\nbase_model: m\n"}) {
    EXPECT_FALSE(IsForeign(text)) << text;
  }
}

}  // namespace
}  // namespace coxswain::job_import
