#include "kernels/c_api/c_api.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/document_loss.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace c_api_documents_test {
namespace {

constexpr int64_t kDocuments = 2;
const DocumentRows kRows[kDocuments] = {{0, 1, 4}, {4, 4, 6}};
const Floats kNll = {0.5f, 1.5f, 0.25f, 2.0f, 0.75f, 1.0f};

TEST(CApiDocumentsTest, GivesTheBitsOfTheOps) {
  DocumentSums sums[kDocuments];
  SumDocuments({kDocuments, kRows, kNll.data(), sums}, nullptr);
  double coefficients[kDocuments], loss = 0;
  PreferenceSums reports;
  Floats weights(6);
  const DocumentScalars scalars{0.5, 0};
  DocumentLoss({.spec = {.terms = 2,
                         .type = {DocumentTerm::kOdds, DocumentTerm::kNllWithPrompt},
                         .weight = {1, 0.5}},
                .documents = kDocuments,
                .rows = kRows,
                .sums = sums,
                .scalars = &scalars,
                .coefficients = coefficients,
                .loss = &loss,
                .reports = &reports,
                .weights = weights.data()},
               nullptr);

  coxswain_sum_documents_args sum{};
  sum.documents = kDocuments;
  sum.rows = &kRows[0].begin;
  sum.nll = kNll.data();
  Doubles c_sums(2 * kDocuments), c_coefficients(kDocuments);
  sum.sums = c_sums.data();
  ASSERT_EQ(coxswain_sum_documents(&sum, nullptr), 0) << coxswain_last_error();
  EXPECT_EQ(c_sums, (Doubles{sums[0].scored, sums[0].all, sums[1].scored, sums[1].all}));
  double c_loss = 0, c_reports[COXSWAIN_PREFERENCE_SUMS] = {};
  const double c_scalars[2] = {0.5, 0};
  Floats c_weights(6);
  coxswain_document_loss_args args{};
  args.pairs = 1;
  args.terms = 2;
  args.type[0] = COXSWAIN_DOCUMENT_ODDS;
  args.type[1] = COXSWAIN_DOCUMENT_NLL_WITH_PROMPT;
  args.weight[0] = 1;
  args.weight[1] = 0.5;
  args.beta = 0.1;
  args.documents = kDocuments;
  args.rows = sum.rows;
  args.sums = c_sums.data();
  args.scalars = c_scalars;
  args.coefficients = c_coefficients.data();
  args.loss = &c_loss;
  args.reports = c_reports;
  args.weights = c_weights.data();
  ASSERT_EQ(coxswain_document_loss(&args, nullptr), 0) << coxswain_last_error();
  EXPECT_EQ(c_loss, loss);
  EXPECT_EQ(c_reports[3], reports.logps_chosen);
  EXPECT_TRUE(SameBits(c_weights, weights));
  EXPECT_NE(weights[0], 0.0f);
  args.type[0] = 99;
  EXPECT_NE(coxswain_document_loss(&args, nullptr), 0);
}

}  // namespace
}  // namespace c_api_documents_test
}  // namespace coxswain::kernels
