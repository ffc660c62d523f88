#include "controller/planner/score_head.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
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
  job_.classification.num_labels = 3;
  ASSERT_TRUE(Put(kThree).ok());
  EXPECT_EQ(model_.labels, 3);
  EXPECT_FALSE(model_.new_head);
  EXPECT_EQ(model_.pad_token, 0);
  EXPECT_TRUE(warnings_.empty());
  job_.classification.num_labels = 4;
  const absl::Status other = Put(kThree);
  EXPECT_TRUE(absl::IsInvalidArgument(other));
  EXPECT_NE(other.message().find("has a head of 3 scores"), std::string::npos) << other;
  EXPECT_NE(other.message().find("takes 4; give classification.num_labels: 3"), std::string::npos)
      << other;
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
