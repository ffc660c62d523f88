// The functions of kernels/c_api/documents.h on the device against the terms of
// kernels/loss/document_terms.h on the host. Sums of doubles in another order are off by n 2^-53 of
// the sum of the magnitudes: with n < 4,096 rows or pairs by less than 1e-12.
#include <cmath>
#include <vector>

#include "kernels/loss/document_terms.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_documents_test {
namespace {

constexpr int64_t kPairs = 301;

struct Documents {
  std::vector<DocumentRows> rows;
  Floats nll;
};

// Of 1 to 40 rows with up to 6 of a prompt; some places are empty.
Documents Make() {
  Documents out;
  int32_t row = 0;
  for (int64_t i = 0; i < 2 * kPairs; ++i) {
    if (i / 2 % 17 == 3) {
      out.rows.push_back({});
      continue;
    }
    const auto prompt = static_cast<int32_t>(i % 7), scored = static_cast<int32_t>(1 + i * 13 % 40);
    out.rows.push_back({.begin = row, .scored = row + prompt, .end = row + prompt + scored});
    row += prompt + scored;
  }
  out.nll = Normal(row, 3, DType::kFloat32);
  for (float& value : out.nll) value = std::abs(value) + 0.1f;
  return out;
}

std::vector<DocumentSums> SumsOf(const Documents& documents) {
  std::vector<DocumentSums> sums;
  for (const DocumentRows& rows : documents.rows) {
    DocumentSums& sum = sums.emplace_back();
    for (int32_t row = rows.begin; rows.begin >= 0 && row < rows.end; ++row) {
      sum.all -= documents.nll[Size(row)];
      if (row >= rows.scored) sum.scored -= documents.nll[Size(row)];
    }
  }
  return sums;
}

class CApiDocumentsGpuTest : public testing::Test {
 protected:
  void Sum() {
    coxswain_sum_documents_args args{};
    args.documents = 2 * kPairs;
    args.rows = &rows_.data()->begin;
    args.nll = nll_.data();
    args.sums = &sums_.data()->scored;
    EXPECT_OK(coxswain_sum_documents(&args, nullptr));
  }

  const Documents host_ = Make();
  const DeviceValues<DocumentRows> rows_{host_.rows};
  const DeviceValues<float> nll_{host_.nll};
  const DeviceValues<DocumentSums> sums_{std::vector<DocumentSums>(2 * kPairs)};
};

TEST_F(CApiDocumentsGpuTest, SumsOfDocuments) {
  Sum();
  const std::vector<DocumentSums> got = sums_.Read(), want = SumsOf(host_);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i].scored, want[i].scored, 1e-12 * (1 + std::abs(want[i].scored))) << i;
    ASSERT_NEAR(got[i].all, want[i].all, 1e-12 * (1 + std::abs(want[i].all))) << i;
  }
}

TEST_F(CApiDocumentsGpuTest, LossReportsAndWeights) {
  Sum();
  const std::vector<DocumentSums> sums = sums_.Read();
  const DeviceValues<DocumentScalars> scalars(std::vector<DocumentScalars>{{.nll_ratio = 0.25}});
  const DeviceValues<double> coefficients(std::vector<double>(2 * kPairs)),
      loss(std::vector<double>{0.5});
  const DeviceValues<PreferenceSums> reports(std::vector<PreferenceSums>(1));
  const DeviceTensor weights(DType::kFloat32, Floats(host_.nll.size(), -7.0f));
  coxswain_document_loss_args args{};
  args.pairs = 1;
  args.terms = 2;
  args.type[0] = COXSWAIN_DOCUMENT_ODDS;
  args.type[1] = COXSWAIN_DOCUMENT_NLL_WITH_PROMPT;
  args.weight[0] = 1;
  args.weight[1] = 0.5;
  args.beta = 0.3;
  args.documents = 2 * kPairs;
  args.rows = &rows_.data()->begin;
  args.sums = &sums_.data()->scored;
  args.scalars = &scalars.data()->nll_ratio;
  args.coefficients = coefficients.data();
  args.loss = loss.data();
  args.reports = &reports.data()->rewards_chosen;
  args.weights = weights.floats();
  EXPECT_OK(coxswain_document_loss(&args, nullptr));

  const DocumentScalars at{.nll_ratio = 0.25, .kl = 0};
  DocumentLossArgs expected{.spec = {.terms = 2,
                                     .type = {DocumentTerm::kOdds, DocumentTerm::kNllWithPrompt},
                                     .weight = {1, 0.5},
                                     .beta = 0.3},
                            .documents = 2 * kPairs,
                            .rows = host_.rows.data(),
                            .sums = sums.data(),
                            .scalars = &at};
  double total = 0.5, won = 0;
  const Floats got = weights.Read();
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    const DocumentRows& chosen = host_.rows[Size(2 * pair)];
    if (chosen.begin < 0) continue;
    const UnitValue value = PairValue(expected, pair);
    total += value.loss;
    won += value.report.accuracies;
    ASSERT_NEAR(got[Size(chosen.scored)], value.chosen + 0.125,
                2e-7 * (1 + std::abs(value.chosen)));
    if (chosen.scored > chosen.begin) {
      ASSERT_EQ(got[Size(chosen.begin)], 0.125f);
    }
    const DocumentRows& rejected = host_.rows[Size(2 * pair + 1)];
    ASSERT_NEAR(got[Size(rejected.end - 1)], value.rejected, 2e-7 * (1 + std::abs(value.rejected)));
    if (rejected.scored > rejected.begin) {
      ASSERT_EQ(got[Size(rejected.begin)], 0.0f);
    }
  }
  EXPECT_NEAR(loss.Read()[0], total, 1e-12 * std::abs(total));
  EXPECT_EQ(reports.Read()[0].accuracies, won);
  args.type[0] = COXSWAIN_DOCUMENT_KTO;
  EXPECT_REFUSED(coxswain_document_loss(&args, nullptr), "DocumentLoss");
}

}  // namespace
}  // namespace gpu_c_api_documents_test
}  // namespace coxswain::kernels
