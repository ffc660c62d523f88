// Models with a head of scores: as transformers' ...ForSequenceClassification and as PEFT's
// SEQ_CLS.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors.h"
#include "controller/export/score_labels.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace score_export_test {
namespace {

using support::ReadFile;

constexpr char kModel[] = "deploy/quickstart/model";

class ScoreExportTest : public ExportTest {
 protected:
  void UseScores(int64_t labels) {
    UseModel(kModel);
    model::ModelConfig& config = request_.plan.model;
    config.labels = labels;
    config.new_head = true;
    config.tie_embeddings = false;
    config.pad_token = 4093;
    request_.plan.architecture = model::ArchitectureOf(config);
    request_.plan.parameters = model::BaseParameterTable(config);
  }

  void CheckpointOfTwos() {
    WriteCheckpoint([](const model::Parameter& p, float* out) {
      std::fill_n(out, p.elements(), model::IsHead(p) ? 2.0f : 1.0f);
    });
  }
};

TEST_F(ScoreExportTest, AFullTuneLoadsAsAClassifier) {
  UseScores(3);
  request_.job.method = "classification";
  request_.job.classification = {
      .num_labels = 3, .label_names = {"bad", "fair", "good"}, .problem = "single_label"};
  TrainGroup([](const model::Parameter&) { return true; });
  CheckpointOfTwos();
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto config = nlohmann::json::parse(ReadFile(result->directory + "/config.json"));
  EXPECT_EQ(config["architectures"], nlohmann::json({"Qwen2ForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], nlohmann::json({{"0", "bad"}, {"1", "fair"}, {"2", "good"}}));
  EXPECT_EQ(config["label2id"], nlohmann::json({{"bad", 0}, {"fair", 1}, {"good", 2}}));
  EXPECT_EQ(config["problem_type"], "single_label_classification");
  EXPECT_EQ(config["pad_token_id"], 4093);
  EXPECT_EQ(config["tie_word_embeddings"], true) << "there is no head of tokens to tie";
  auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Find("lm_head.weight"), nullptr);
  const TensorInfo* score = (*file)->Find("score.weight");
  ASSERT_NE(score, nullptr);
  EXPECT_EQ(score->shape, (std::vector<int64_t>{3, 256}));
}

// The names of a base's head outlive a job that has none.
TEST_F(ScoreExportTest, AHeadOfTheBaseKeepsItsNames) {
  UseScores(2);
  request_.plan.model.new_head = false;
  request_.job.method = "classification";
  request_.job.classification = {.num_labels = 2, .label_names = {}, .problem = "single_label"};
  nlohmann::ordered_json config = {{"id2label", {{"0", "no"}, {"1", "yes"}}}};
  DescribeScores(request_.job, request_.plan, &config);
  EXPECT_EQ(config["id2label"], nlohmann::ordered_json({{"0", "no"}, {"1", "yes"}}));
  const std::string text = LoadingScores(request_.job, request_.plan, "org/base");
  EXPECT_NE(text.find(R"(from_pretrained("org/base", pad_token_id=4093))"), std::string::npos)
      << text;
  request_.job.classification.label_names = {"bad", "good"};
  DescribeScores(request_.job, request_.plan, &config);
  EXPECT_EQ(config["id2label"]["1"], "good");
}

TEST_F(ScoreExportTest, AnAdapterHoldsTheWholeHead) {
  UseScores(1);
  request_.job.method = "reward";
  AddLora(4, 8, false);
  request_.job.lora.modules_to_save = {"score"};
  TrainGroup([](const model::Parameter& p) { return model::IsAdapter(p) || model::IsHead(p); });
  CheckpointOfTwos();
  request_.job.export_merge = true;
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto config = nlohmann::json::parse(ReadFile(result->directory + "/adapter_config.json"));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], nlohmann::json({"score"}));
  auto file = SafetensorsFile::Open(result->directory + "/adapter_model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* score = (*file)->Find("base_model.model.score.weight");
  ASSERT_NE(score, nullptr);
  EXPECT_EQ(score->shape, (std::vector<int64_t>{1, 256}));
  const std::string card = ReadFile(result->directory + "/README.md");
  EXPECT_NE(card.find(R"(num_labels=1, id2label=dict(enumerate(["LABEL_0"])), pad_token_id=4093)"),
            std::string::npos)
      << card;
  const auto merged = nlohmann::json::parse(ReadFile(result->merged_directory + "/config.json"));
  EXPECT_EQ(merged["architectures"], nlohmann::json({"Qwen2ForSequenceClassification"}));
  EXPECT_EQ(merged["id2label"], nlohmann::json({{"0", "LABEL_0"}}));
  EXPECT_FALSE(merged.contains("problem_type"));
}

}  // namespace
}  // namespace score_export_test
}  // namespace coxswain::exports
