#include "controller/planner/model/score_head.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "controller/planner/model/added_tokens.h"
#include "tests/controller/planner/job_fixture.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace score_head_test {
namespace {

class ScoreHeadTest : public testing::Test {
 protected:
  // What PutScoreHead makes of a base whose config.json has these keys.
  absl::Status Put(const std::string& keys, const std::string& architecture = "Qwen2ForCausalLM") {
    std::ofstream(absl::StrCat(folder_.path(), "/config.json")) << "{" << keys << "}";
    job_.model_path = folder_.path();
    model_ = SmallModel();
    model_.architecture = architecture;
    warnings_.clear();
    return PutScoreHead(job_, &model_, &warnings_);
  }

  support::ScratchFolder folder_;
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_;
  std::vector<std::string> warnings_;
};

constexpr char kCausal[] = R"("architectures": ["Qwen2ForCausalLM"], "eos_token_id": [7, 8])";
constexpr char kThree[] =
    R"("architectures": ["Qwen2ForSequenceClassification"], "pad_token_id": 0, "eos_token_id": 7,
       "id2label": {"0": "a", "1": "b", "2": "c"})";

TEST_F(ScoreHeadTest, ABaseWithoutOneGetsANewHead) {
  job_.method = "reward";
  ASSERT_TRUE(Put(kCausal).ok());
  EXPECT_EQ(model_.labels, 1);
  EXPECT_TRUE(model_.new_head);
  EXPECT_FALSE(model_.tie_embeddings);
  EXPECT_EQ(model_.pad_token, 7) << "without padding the end of texts, as TRL takes it";
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("has no head of scores: score.weight of 1 x 16 is new"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(ScoreHeadTest, AHeadOfTheFilesIsTakenWhereItsLabelsFit) {
  job_.method = "classification";
  job_.classification = {.num_labels = 3, .label_names = {"a", "b", "c"}};
  ASSERT_TRUE(Put(kThree).ok());
  EXPECT_EQ(model_.labels, 3);
  EXPECT_FALSE(model_.new_head);
  EXPECT_EQ(model_.pad_token, 0);
  EXPECT_TRUE(warnings_.empty());
  job_.classification.num_labels = 4;
  const absl::Status other = Put(kThree);
  EXPECT_TRUE(absl::IsInvalidArgument(other));
  EXPECT_NE(other.message().find("has a head of 3 scores"), std::string::npos) << other;
  EXPECT_NE(other.message().find("takes 4; give the model that it was trained from, or "
                                 "classification.num_labels: 3"),
            std::string::npos)
      << other;
}

// Its rows mean what the base says, whatever the job calls them.
TEST_F(ScoreHeadTest, LabelsAreThoseOfTheHead) {
  job_.method = "classification";
  job_.classification = {.num_labels = 3, .label_names = {"a", "b", "c"}};
  ASSERT_TRUE(Put(kThree).ok());
  EXPECT_TRUE(warnings_.empty());
  job_.classification.label_names = {"c", "b", "a"};
  const absl::Status swapped = Put(kThree);
  EXPECT_NE(swapped.message().find("give classification.label_names: [a, b, c]"), std::string::npos)
      << swapped;
  job_.classification.label_names.clear();
  EXPECT_TRUE(Put(kThree).ok()) << "the export keeps the names of the base";
  EXPECT_TRUE(warnings_.empty());
}

// An adapter may bring the head, of the size that the job wants.
TEST_F(ScoreHeadTest, AnAdapterMayBringTheHead) {
  job_.method = "reward";
  job_.lora.init_from = folder_.path();
  const auto write = [&](int64_t labels) {
    const auto fill = [](uint8_t*) { return absl::OkStatus(); };
    ASSERT_TRUE(
        WriteSafetensors(absl::StrCat(folder_.path(), "/adapter_model.safetensors"),
                         {{"base_model.model.score.weight", ElementType::kF32, {labels, 16}, fill}})
            .ok());
  };
  write(1);
  ASSERT_TRUE(Put(kCausal).ok());
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  EXPECT_TRUE(model_.new_head) << "of the base";
  write(3);
  const absl::Status other = Put(kCausal);
  EXPECT_NE(other.message().find("has a head of shape [3, 16], and method: reward takes [1, 16]"),
            std::string::npos)
      << other;
}

// As TRL has it: the tokenizer's, else that of config.json, else the end of texts.
TEST_F(ScoreHeadTest, PaddingIsTheTokenizers) {
  job_.method = "reward";
  ASSERT_TRUE(Put(kCausal).ok());
  data::PreparedData data;
  ASSERT_TRUE(GrowVocabulary(data, &model_).ok());
  EXPECT_EQ(model_.pad_token, 7);
  data.pad_token = 5;
  ASSERT_TRUE(GrowVocabulary(data, &model_).ok());
  EXPECT_EQ(model_.pad_token, 5);
  model_ = SmallModel();
  ASSERT_TRUE(GrowVocabulary(data, &model_).ok());
  EXPECT_EQ(model_.pad_token, std::nullopt) << "nothing is scored";
}

TEST_F(ScoreHeadTest, OtherMethodsNeedAHeadOfTokens) {
  ASSERT_TRUE(Put(kCausal).ok());
  EXPECT_EQ(model_, SmallModel());
  const absl::Status scores = Put(kThree);
  EXPECT_NE(scores.message().find("a head of 3 scores and none of tokens"), std::string::npos)
      << scores;
}

TEST_F(ScoreHeadTest, AFamilyWithoutSuchAClassIsRefused) {
  job_.method = "reward";
  const absl::Status none = Put(kCausal, "GraniteForCausalLM");
  EXPECT_NE(none.message().find("transformers has none for GraniteForCausalLM"), std::string::npos)
      << none;
}

TEST_F(ScoreHeadTest, TheLossFollowsTheMethod) {
  EXPECT_FALSE(ScoreLoss(job_).any());
  job_.method = "reward";
  job_.reward.center_coefficient = 0.01;
  plan::DocumentLoss loss = ScoreLoss(job_);
  EXPECT_EQ(loss.terms.front().type, "bradley_terry");
  EXPECT_EQ(loss.labels, 1);
  EXPECT_EQ(loss.centre, 0.01);
  EXPECT_EQ(loss.documents_per_unit(), 2);
  EXPECT_EQ(loss.values_per_document(), 1);
  EXPECT_TRUE(plan::CheckDocumentLoss(loss).ok());
  job_.method = "classification";
  job_.classification = {.num_labels = 4, .label_names = {}, .problem = "multi_label"};
  loss = ScoreLoss(job_);
  EXPECT_EQ(loss.documents_per_unit(), 1);
  EXPECT_EQ(loss.values_per_document(), 4);
  EXPECT_TRUE(plan::CheckDocumentLoss(loss).ok());
}

}  // namespace
}  // namespace score_head_test
}  // namespace coxswain::planner
