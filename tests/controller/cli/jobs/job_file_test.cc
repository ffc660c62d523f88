#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/controller/cli/run_cox.h"
#include "tests/controller/cli/temp_dir.h"

namespace coxswain::cli {

// Configurations of other trainers where verbs take a job file.

namespace {

std::string TheirFile(const std::string& extra = "", const std::string& name = "lora-1.yml") {
  const std::string path = TempDir() + "/" + name;
  std::ofstream(path) << "base_model: ./model\nlearning_rate: 2e-4\nnum_epochs: 1\n"
                         "datasets: [{path: ./a.jsonl, type: alpaca}]\n"
                      << extra;
  return path;
}

bool ForeignSays(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ForeignFileTest, IsImportedWithTheReportOfImport) {
  const std::string file = TheirFile("output_dir: ./outputs/out\n");
  const Ran valid = RunInProcess({"validate", file});
  EXPECT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.out, file + ": schema valid; cox plan also checks model and data\n");
  EXPECT_EQ(valid.err, RunInProcess({"import", file}).err);
  EXPECT_TRUE(ForeignSays(valid.err, file + ":5: changed: output_dir: ./outputs/out"));
}

TEST(ForeignFileTest, OverridesAreOfTheJobThatItBecomes) {
  FakeJobs fake;
  const Ran ran = RunAt(fake, {"submit", TheirFile(), "--set", "train.num_epochs=null", "--set",
                               "train.max_steps=2", "-o", "json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto job = nlohmann::json::parse(ran.out);
  EXPECT_EQ(job["effective"]["metadata"]["name"], "lora-1");
  EXPECT_EQ(job["effective"]["spec"]["train"]["max_steps"], 2);
  EXPECT_EQ(job["effective"]["spec"]["checkpoint"]["output_dir"], TempDir() + "/out/lora-1");
}

TEST(ForeignFileTest, WhatIsInTheWayIsTheLastLine) {
  const Ran ran = RunInProcess({"plan", TheirFile("relora: true\n")});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(ForeignSays(ran.err, ":5: in the way: relora: true")) << ran.err;
  const std::string last = ran.err.substr(ran.err.rfind('\n', ran.err.size() - 2) + 1);
  EXPECT_EQ(last.find("cox: "), 0u) << last;
  EXPECT_TRUE(ForeignSays(last, "not imported; in the way: relora (adapters that restart")) << last;
}

TEST(ForeignFileTest, ErrorsNameNoLineOfATextThatNobodySees) {
  const std::string here = TempDir();
  const std::string file = TheirFile("output_dir: ./model/out\n", "inside.yml");
  std::filesystem::create_directories(here + "/model");
  const Ran ran = RunInProcess({"validate", file});
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(ForeignSays(ran.err, file + ": spec.checkpoint.output_dir: checkpoint.output_dir"))
      << ran.err;
  const Ran set = RunInProcess({"validate", file, "--set", "train.sed=1", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(set.out)["errors"][0]["line"], 0);
}

TEST(ForeignFileTest, ACommandLineOfTrlIsOneToo) {
  const std::string path = TempDir() + "/run.sh";
  std::ofstream(path) << "trl sft --model_name_or_path ./model --dataset_name ./a.jsonl\n";
  const Ran ran = RunInProcess({"validate", path});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ForeignSays(ran.err, "imported from TRL")) << ran.err;
}

TEST(ForeignFileTest, AFileOfNobodyIsAJobWithErrors) {
  const std::string path = TempDir() + "/nobodys.yaml";
  std::ofstream(path) << "some: thing\n";
  const Ran ran = RunInProcess({"validate", path});
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(ForeignSays(ran.err, path + ":1: some: unknown key")) << ran.err;
  EXPECT_FALSE(ForeignSays(ran.err, "import")) << ran.err;
}

}  // namespace

}  // namespace coxswain::cli
