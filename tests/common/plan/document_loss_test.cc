#include "common/plan/document_loss.h"

#include <gtest/gtest.h>

#include <string>

#include "common/plan/extents.h"

namespace coxswain::plan {
namespace document_loss_test {
namespace {

TEST(DocumentLossTest, NamesAreThoseOfTheKernel) {
  ASSERT_EQ(DocumentTermNames().size(),
            static_cast<size_t>(kernels::DocumentTerm::kApoZeroRecord) + 1);
  const kernels::DocumentLossSpec spec =
      SpecOf({.terms = {{"margin", 1}, {"nll", 0.5}}, .beta = 2, .margin = 0.5});
  EXPECT_TRUE(spec.pairs);
  EXPECT_EQ(spec.terms, 2);
  EXPECT_EQ(spec.type[0], kernels::DocumentTerm::kMargin);
  EXPECT_EQ(spec.type[1], kernels::DocumentTerm::kNll);
  EXPECT_EQ(spec.weight[1], 0.5);
  EXPECT_EQ(spec.beta, 2);
  EXPECT_EQ(spec.margin, 0.5);
}

// TRL reports means of CPO's losses that are of means, and sums of all that have a reference.
TEST(DocumentLossTest, ReportsMeansOrSumsAsTrlDoes) {
  const auto means = [](const char* type, const char* reference) {
    return SpecOf({.terms = {{type, 1}}, .reference = reference}).mean_rewards;
  };
  EXPECT_TRUE(means("margin", "none"));
  EXPECT_TRUE(means("odds", "none"));
  EXPECT_TRUE(means("ipo", "none"));
  EXPECT_FALSE(means("smoothed", "none"));
  EXPECT_FALSE(means("ipo", "base"));
}

TEST(DocumentLossTest, SaysWhatItsDocumentsAre) {
  EXPECT_EQ(DocumentLoss().documents_per_unit(), 0);
  EXPECT_FALSE(DocumentLoss().any());
  const DocumentLoss orpo{.terms = {{"odds", 1}, {"nll_with_prompt", 1}}};
  EXPECT_EQ(orpo.documents_per_unit(), 2);
  EXPECT_TRUE(orpo.has_nll() && orpo.nll_has_prompt());
  const DocumentLoss kto{.terms = {{"kto", 1}}};
  EXPECT_EQ(kto.documents_per_unit(), 1);
  EXPECT_TRUE(kto.has_kl());
  EXPECT_FALSE(DocumentLoss({.terms = {{"apo_zero_record", 1}}}).has_kl());
}

// Bins of pairs, and of records with a KL term, have room for two documents.
TEST(DocumentLossTest, ADocumentIsAsLongAsABinOrHalfOfIt) {
  Plan plan;
  plan.sequence_len = 128;
  EXPECT_EQ(LongestDocument(plan), 128);
  plan.document_loss.terms = {{"apo_zero_record", 1}};
  EXPECT_EQ(LongestDocument(plan), 128);
  for (const char* term : {"sigmoid", "kto"}) {
    plan.document_loss.terms = {{term, 1}};
    EXPECT_EQ(LongestDocument(plan), 64) << term;
  }
}

TEST(DocumentLossTest, NamesWhatCannotBe) {
  const auto message = [](const DocumentLoss& loss) {
    return std::string(CheckDocumentLoss(loss).message());
  };
  EXPECT_TRUE(CheckDocumentLoss({}).ok());
  EXPECT_NE(message({.terms = {{"sigmoid", 1}, {"kto", 1}}}).find("sigmoid and kto"),
            std::string::npos);
  EXPECT_NE(message({.terms = {{"dpo", 1}}}).find("the term dpo"), std::string::npos);
  EXPECT_NE(message({.terms = {{"ipo", 0}}}).find("weight 0"), std::string::npos);
  EXPECT_NE(message({.terms = {{"ipo", 1}}, .beta = 0}).find("beta 0"), std::string::npos);
  EXPECT_NE(message({.terms = {{"ipo", 1}}, .label_smoothing = 0.5}).find("smoothing 0.5"),
            std::string::npos);
  EXPECT_NE(message({.terms = {{"ipo", 1}}, .reference = "start"}).find("reference start"),
            std::string::npos);
  const std::vector<DocumentLossTerm> five(5, {"sigmoid", 1});
  EXPECT_NE(message({.terms = five}).find("5 terms, at most 4"), std::string::npos);
}

// Of scores: what documents bring, and what the terms of log-probabilities have does not apply.
TEST(DocumentLossTest, LossesOfScores) {
  const DocumentLoss reward = {.terms = {{"bradley_terry", 1}}, .labels = 1, .centre = 0.01};
  EXPECT_TRUE(CheckDocumentLoss(reward).ok());
  EXPECT_EQ(reward.documents_per_unit(), 2);
  EXPECT_EQ(reward.values_per_document(), 1);
  EXPECT_FALSE(reward.has_kl() || reward.has_nll() || reward.nll_has_prompt());
  const DocumentLoss classes = {.terms = {{"single_label", 1}}, .labels = 4};
  EXPECT_EQ(classes.documents_per_unit(), 1);
  EXPECT_EQ(classes.values_per_document(), 1);
  EXPECT_EQ(DocumentLoss({.terms = {{"multi_label", 1}}, .labels = 4}).values_per_document(), 4);
  EXPECT_EQ(DocumentLoss({.terms = {{"kto", 1}}}).values_per_document(), 1);
  EXPECT_EQ(DocumentLoss({.terms = {{"sigmoid", 1}}}).values_per_document(), 0);
  for (const DocumentLoss& wrong :
       {DocumentLoss{.terms = {{"bradley_terry", 1}}, .labels = 2},
        DocumentLoss{.terms = {{"single_label", 1}}, .labels = 1},
        DocumentLoss{.terms = {{"sigmoid", 1}}, .labels = 1},
        DocumentLoss{.terms = {{"regression", 2}}, .labels = 1},
        DocumentLoss{.terms = {{"regression", 1}}, .reference = "base", .labels = 1}}) {
    EXPECT_NE(CheckDocumentLoss(wrong).message().find("document_loss of scores has"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace document_loss_test
}  // namespace coxswain::plan
