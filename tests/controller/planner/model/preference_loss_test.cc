#include "controller/planner/model/preference_loss.h"

#include <gtest/gtest.h>

#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace preference_loss_test {
namespace {

config::JobSpec JobOf(const std::string& method, std::vector<std::string> loss) {
  config::JobSpec job = SmallJob();
  job.method = method;
  job.adapter = config::Adapter::kLora;
  job.preference.loss = std::move(loss);
  job.preference.loss_weights.assign(job.preference.loss.size(), 1.0);
  job.preference.beta = 0.25;
  job.preference.reference = method == "dpo" || method == "kto" ? "start" : "none";
  return job;
}

TEST(PreferenceLossTest, OtherMethodsHaveNone) {
  EXPECT_FALSE(DocumentLossOf(SmallJob()).any());
  EXPECT_TRUE(CheckPreferenceLoss(SmallJob()).ok());
}

TEST(PreferenceLossTest, LossesOfDpoAreAddedByWeight) {
  config::JobSpec job = JobOf("dpo", {"sigmoid", "sft", "cdpo", "sigmoid_norm"});
  job.preference.loss_weights = {1, 0.5, 0, 2};
  const plan::DocumentLoss loss = DocumentLossOf(job);
  const std::vector<plan::DocumentLossTerm> want = {
      {"sigmoid", 1}, {"nll", 0.5}, {"sigmoid_mean", 2}};
  EXPECT_EQ(loss.terms, want);
  EXPECT_EQ(loss.beta, 0.25);
}

TEST(PreferenceLossTest, MethodsWithoutAReference) {
  config::JobSpec job = JobOf("orpo", {"orpo"});
  job.preference.nll_weight = 1;
  const std::vector<plan::DocumentLossTerm> orpo = {{"odds", 1}, {"nll_with_prompt", 1}};
  EXPECT_EQ(DocumentLossOf(job).terms, orpo);
  EXPECT_EQ(DocumentLossOf(job).reference, "none");
  job = JobOf("simpo", {"simpo"});
  job.preference.gamma = 0.5;
  const std::vector<plan::DocumentLossTerm> simpo = {{"margin", 1}};
  EXPECT_EQ(DocumentLossOf(job).terms, simpo);
  EXPECT_EQ(DocumentLossOf(job).margin, 0.5);
  job = JobOf("cpo", {"sigmoid"});
  job.preference.nll_weight = 2;
  const std::vector<plan::DocumentLossTerm> cpo = {{"smoothed", 1}, {"nll", 2}};
  EXPECT_EQ(DocumentLossOf(job).terms, cpo);
}

TEST(PreferenceLossTest, RecordsHaveWeightsByLabel) {
  config::JobSpec job = JobOf("kto", {"kto"});
  job.preference.desirable_weight = 1.5;
  job.preference.undesirable_weight = 0.5;
  const plan::DocumentLoss loss = DocumentLossOf(job);
  EXPECT_EQ(loss.terms.front().type, "kto");
  EXPECT_EQ(loss.desirable_weight, 1.5);
  EXPECT_EQ(loss.undesirable_weight, 0.5);
}

// What the policy was at step 0 is the base only where a fresh adapter begins.
TEST(PreferenceLossTest, TheStartIsTheBaseOfAFreshAdapterAlone) {
  config::JobSpec job = JobOf("dpo", {"sigmoid"});
  EXPECT_EQ(DocumentLossOf(job).reference, "base");
  job.preference.reference = "cached";
  EXPECT_EQ(DocumentLossOf(job).reference, "kept");
  job.preference.reference = "start";
  job.lora.init_from = "/adapter";
  EXPECT_EQ(DocumentLossOf(job).reference, "kept");
  job.preference.reference = "base";
  EXPECT_EQ(DocumentLossOf(job).reference, "base");
  job.lora.modules_to_save = {"lm_head"};
  EXPECT_NE(CheckPreferenceLoss(job).message().find("lora.modules_to_save"), std::string::npos);
  job.preference.reference = "start";
  EXPECT_TRUE(CheckPreferenceLoss(job).ok());
  EXPECT_EQ(DocumentLossOf(job).reference, "kept");
  job = JobOf("dpo", {"sigmoid"});
  job.moe.bias_rate = 1e-3;
  EXPECT_EQ(DocumentLossOf(job).reference, "kept") << "the router's corrections move";
  job.preference.reference = "base";
  EXPECT_NE(CheckPreferenceLoss(job).message().find("moe.balance: bias"), std::string::npos);
  job = JobOf("dpo", {"sigmoid"});
  job.adapter = config::Adapter::kNone;
  EXPECT_EQ(DocumentLossOf(job).reference, "kept");
}

}  // namespace
}  // namespace preference_loss_test
}  // namespace coxswain::planner
