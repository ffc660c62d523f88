#include "controller/cli/jobs/generation_job.h"

#include <gtest/gtest.h>

#include "common/config/parser/job_parser.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

class GenerationJobTest : public testing::Test {
 protected:
  GenerationJobTest() {
    asked_.prompts = {"Why?"};
    folder_.Write("config.json", R"({"max_position_embeddings": 777})");
  }
  // What the job file's own reader makes of it.
  static config::JobSpec Parsed(const absl::StatusOr<OrderedJson>& job) {
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return {};
    const config::ParsedJob parsed = config::ParseJob(job->dump(), "/");
    EXPECT_TRUE(parsed.errors.empty()) << config::FormatErrors(parsed.errors, "generate");
    return parsed.spec;
  }
  static void Refused(const absl::Status& status, const std::string& what) {
    EXPECT_NE(status.ToString().find(what), std::string::npos) << status;
  }

  support::ScratchFolder folder_;
  GenerationArgs asked_;
};

TEST_F(GenerationJobTest, AModelIsAskedWithinItsLength) {
  asked_.temperature = 0.5;
  asked_.seed = 9;
  const config::JobSpec job = Parsed(ModelGeneration(folder_.path(), asked_));
  EXPECT_TRUE(config::OnlyGenerates(job));
  EXPECT_EQ(job.model_path, folder_.path());
  EXPECT_EQ(job.sequence_len, 777);
  EXPECT_EQ(job.adapter, config::Adapter::kNone);
  EXPECT_EQ(job.generate.prompts, asked_.prompts);
  EXPECT_EQ(job.generate.temperature, 0.5);
  EXPECT_EQ(job.generate.seed, 9u);
}

TEST_F(GenerationJobTest, AnAdapterIsLeftToItsOwnSettings) {
  const std::string adapter = folder_.path() + "/adapter_config.json";
  asked_.adapter = folder_.path();
  Refused(ModelGeneration(folder_.path(), asked_).status(), adapter);
  folder_.Write("adapter_config.json", R"({"r": 4, "lora_alpha": 12})");
  const auto made = ModelGeneration(folder_.path(), asked_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)["spec"]["lora"], (OrderedJson{{"init_from", folder_.path()}}));
  EXPECT_EQ(Parsed(made).adapter, config::Adapter::kLora);
}

TEST_F(GenerationJobTest, AJobIsAskedByItsCheckpoint) {
  v1::Job job;
  job.set_id("tiny-1");
  job.set_effective_json(
      R"({"spec": {"base_model": {"path": "/m"}, "adapter": "lora", "lora": {"r": 2,)"
      R"( "init_from": "/gone"}, "sequence_len": 99, "datasets": [{"path": "/d"}]}})");
  Refused(JobGeneration(job, -1, asked_).status(), "has no checkpoint yet");
  job.add_checkpoints()->set_step(4);
  const config::JobSpec newest = Parsed(JobGeneration(job, -1, asked_));
  EXPECT_EQ(newest.resume, "tiny-1");
  EXPECT_EQ(newest.lora.r, 2);
  EXPECT_FALSE(newest.lora.init_from.has_value());
  EXPECT_EQ(newest.sequence_len, 99);
  EXPECT_TRUE(newest.datasets.empty());
  EXPECT_EQ(newest.generate.style, config::AskingStyle::kAuto) << "its dataset is out of reach";
  EXPECT_EQ(Parsed(JobGeneration(job, 4, asked_)).resume, "tiny-1:4");
  asked_.adapter = "/a";
  Refused(JobGeneration(job, -1, asked_).status(), "--adapter goes with a model's directory");
}

TEST_F(GenerationJobTest, AJobIsAskedAsItsRecordsAre) {
  v1::Job job;
  job.set_id("tiny-1");
  job.add_checkpoints()->set_step(4);
  const auto style = [&](OrderedJson dataset) {
    dataset["path"] = "/d";
    const OrderedJson file = {
        {"apiVersion", "coxswain/v1"},
        {"kind", "FineTuneJob"},
        {"metadata", {{"name", "tiny"}}},
        {"spec", {{"base_model", {{"path", "/m"}}}, {"datasets", OrderedJson::array({dataset})}}}};
    job.set_yaml(file.dump());
    const config::ParsedJob parsed = config::ParseJob(job.yaml(), "/");
    EXPECT_TRUE(parsed.errors.empty()) << config::FormatErrors(parsed.errors, "tiny");
    job.set_effective_json(parsed.effective_json);
    return Parsed(JobGeneration(job, -1, asked_)).generate.style;
  };
  const OrderedJson alpaca = {{"format", "alpaca"}, {"prompt_style", "alpaca"}};
  EXPECT_EQ(style(alpaca), config::AskingStyle::kAlpaca);
  EXPECT_EQ(style({{"format", "alpaca"}, {"prompt_style", "chat"}}), config::AskingStyle::kChat);
  EXPECT_EQ(style({{"format", "completion"}}), config::AskingStyle::kText);
  asked_.style = "chat";
  EXPECT_EQ(style(alpaca), config::AskingStyle::kChat);
}

TEST_F(GenerationJobTest, EitherPromptsOrMessages) {
  EXPECT_TRUE(GenerateSection(asked_).ok());
  asked_.messages_file = folder_.Write("m.json", "[]");
  Refused(GenerateSection(asked_).status(), "one of the two");
  asked_.prompts.clear();
  EXPECT_EQ((*GenerateSection(asked_))["messages"], "[]");
  asked_.messages_file.clear();
  Refused(GenerateSection(asked_).status(), "one of the two");
}

}  // namespace
}  // namespace coxswain::cli
