#include "kernels/loss/document_loss.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/loss/document_terms.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace document_loss_test {
namespace {

constexpr DocumentTerm kPairTerms[] = {
    DocumentTerm::kSigmoid, DocumentTerm::kSmoothed, DocumentTerm::kRobust,
    DocumentTerm::kHinge,   DocumentTerm::kIpo,      DocumentTerm::kSigmoidMean,
    DocumentTerm::kApoZero, DocumentTerm::kMargin,   DocumentTerm::kOdds};

DocumentLossSpec SpecOf(DocumentTerm type, double weight = 1) {
  DocumentLossSpec spec;
  spec.pairs = !IsOfRecords(type);
  spec.terms = 1;
  spec.type[0] = type;
  spec.weight[0] = weight;
  spec.beta = 0.3;
  spec.label_smoothing = 0.1;
  spec.margin = 0.2;
  return spec;
}

// Central differences with h: the truncation is h^2 f''' / 6, the rounding 2^-52 f / h. With h =
// 1e-4 and f, f''' below 100 both are below 3e-7 f.
void CheckSlopes(DocumentTerm type, ScoredDocument chosen, ScoredDocument rejected) {
  const DocumentLossSpec spec = SpecOf(type);
  const auto loss = [&](double dc, double dr) {
    ScoredDocument c = chosen, r = rejected;
    c.sum += dc;
    r.sum += dr;
    return PairTerm(spec, type, c, r).loss;
  };
  constexpr double kH = 1e-4;
  const TermValue at = PairTerm(spec, type, chosen, rejected);
  const double bound = 3e-7 * std::max(1.0, std::abs(at.loss));
  EXPECT_NEAR(at.chosen, (loss(kH, 0) - loss(-kH, 0)) / (2 * kH), bound) << static_cast<int>(type);
  EXPECT_NEAR(at.rejected, (loss(0, kH) - loss(0, -kH)) / (2 * kH), bound)
      << static_cast<int>(type);
}

TEST(DocumentLossTest, DerivativesAreThoseOfTheLosses) {
  for (const DocumentTerm type : kPairTerms) {
    CheckSlopes(type, {-12.5, -13.0, 7}, {-20.0, -18.5, 10});
    CheckSlopes(type, {-40.0, -30.0, 12}, {-3.0, -6.0, 1});
    CheckSlopes(type, {-0.5, -0.25, 1}, {-0.75, -9.0, 3});
  }
}

// Far from 0 nothing overflows: the loss is the linear part, the slope is beta or 0.
TEST(DocumentLossTest, LossesOfDistantPairsAreFinite) {
  const DocumentLossSpec spec = SpecOf(DocumentTerm::kSigmoid);
  const TermValue lost = PairTerm(spec, DocumentTerm::kSigmoid, {-9000, 0, 5}, {0, 0, 5});
  EXPECT_EQ(lost.loss, 2700);
  EXPECT_EQ(lost.chosen, -0.3);
  const TermValue won = PairTerm(spec, DocumentTerm::kSigmoid, {0, 0, 5}, {-9000, 0, 5});
  EXPECT_EQ(won.loss, 0);
  EXPECT_EQ(won.rejected, 0);
}

Floats NllOf(int64_t rows, unsigned seed) {
  Floats nll = Normal(rows, seed);
  for (float& value : nll) value = std::abs(value) + 0.1f;
  return nll;
}

struct Batch {
  std::vector<DocumentRows> rows;
  Floats nll;
};

// Pairs with prompts, an empty place, and a document of one row.
Batch Pairs() {
  return {.rows = {{0, 3, 7}, {7, 8, 12}, {}, {}, {12, 12, 13}, {13, 15, 16}}, .nll = NllOf(16, 3)};
}

struct Results {
  Doubles coefficients;
  double loss = 0;
  PreferenceSums reports;
  Floats weights;
};

std::vector<DocumentSums> SumsOf(const Batch& batch) {
  std::vector<DocumentSums> sums(batch.rows.size(), {1, 1});
  const ExpectNoAllocation none;
  SumDocuments({.documents = static_cast<int64_t>(batch.rows.size()),
                .rows = batch.rows.data(),
                .nll = batch.nll.data(),
                .sums = sums.data()},
               nullptr);
  return sums;
}

Results LossOf(const DocumentLossSpec& spec, const Batch& batch,
               const std::vector<DocumentSums>& references, const std::vector<float>& labels,
               const DocumentScalars& scalars) {
  const std::vector<DocumentSums> sums = SumsOf(batch);
  Results out{.coefficients = Doubles(batch.rows.size()),
              .loss = 0,
              .reports = {},
              .weights = Floats(batch.nll.size(), -7.0f)};
  const ExpectNoAllocation none;
  DocumentLoss({.spec = spec,
                .documents = static_cast<int64_t>(batch.rows.size()),
                .rows = batch.rows.data(),
                .sums = sums.data(),
                .references = references.empty() ? nullptr : references.data(),
                .labels = labels.empty() ? nullptr : labels.data(),
                .scalars = &scalars,
                .coefficients = out.coefficients.data(),
                .loss = &out.loss,
                .reports = &out.reports,
                .weights = out.weights.data()},
               nullptr);
  return out;
}

double MinusSumOf(const Batch& batch, int32_t begin, int32_t end) {
  double sum = 0;
  for (int32_t row = begin; row < end; ++row) sum -= batch.nll[Size(row)];
  return sum;
}

TEST(DocumentLossTest, RowsOfADocumentHaveItsWeightAndPromptsNone) {
  const Batch batch = Pairs();
  const std::vector<DocumentSums> references = {{-3, 0}, {-5, 0}, {}, {}, {-1, 0}, {-2, 0}};
  const DocumentLossSpec spec = SpecOf(DocumentTerm::kSigmoid, 0.5);
  const Results got = LossOf(spec, batch, references, {}, {});
  double loss = 0, accuracies = 0, logps = 0;
  for (const size_t i : {size_t{0}, size_t{4}}) {
    const DocumentRows &c = batch.rows[i], &r = batch.rows[i + 1];
    const ScoredDocument chosen{MinusSumOf(batch, c.scored, c.end), references[i].scored,
                                static_cast<double>(c.end - c.scored)};
    const ScoredDocument rejected{MinusSumOf(batch, r.scored, r.end), references[i + 1].scored,
                                  static_cast<double>(r.end - r.scored)};
    const TermValue want = PairTerm(spec, DocumentTerm::kSigmoid, chosen, rejected);
    loss += 0.5 * want.loss;
    accuracies += chosen.gain() > rejected.gain() ? 1 : 0;
    logps += chosen.sum;
    for (int32_t row = c.begin; row < c.end; ++row) {
      EXPECT_EQ(got.weights[Size(row)],
                row < c.scored ? 0.0f : static_cast<float>(-0.5 * want.chosen));
    }
    for (int32_t row = r.scored; row < r.end; ++row) {
      EXPECT_EQ(got.weights[Size(row)], static_cast<float>(-0.5 * want.rejected));
    }
  }
  EXPECT_DOUBLE_EQ(got.loss, loss);
  EXPECT_EQ(got.reports.accuracies, accuracies);
  EXPECT_DOUBLE_EQ(got.reports.logps_chosen, logps);
  EXPECT_EQ(got.reports.chosen, 2);
}

// The nll of a chosen document counts over its own denominator, with or without the prompt.
TEST(DocumentLossTest, NllIsOfChosenRowsAlone) {
  const Batch batch = Pairs();
  for (const bool prompt : {false, true}) {
    DocumentLossSpec spec =
        SpecOf(prompt ? DocumentTerm::kNllWithPrompt : DocumentTerm::kNll, 0.25);
    const Results got = LossOf(spec, batch, {}, {}, {.nll_ratio = 0.5, .kl = 0});
    double nll = 0;
    for (int32_t row = 0; row < 16; ++row) {
      const bool chosen = row < 7 || row == 12, scored = row >= 3;
      const bool counts = chosen && (scored || prompt);
      EXPECT_EQ(got.weights[Size(row)], counts ? 0.125f : 0.0f) << row;
      nll += counts ? batch.nll[Size(row)] : 0.0;
    }
    EXPECT_DOUBLE_EQ(got.loss, 0.125 * nll);
  }
}

TEST(DocumentLossTest, RecordsPullByTheirLabels) {
  const Batch batch{.rows = {{0, 0, 4}, {4, 6, 8}, {}}, .nll = NllOf(8, 5)};
  DocumentLossSpec spec = SpecOf(DocumentTerm::kKto);
  spec.desirable_weight = 1.5;
  spec.undesirable_weight = 0.5;
  const std::vector<DocumentSums> references = {{-6, 0}, {-4, 0}, {}};
  const Results got = LossOf(spec, batch, references, {1, 0, 0}, {.nll_ratio = 0, .kl = 0.4});
  const double won = MinusSumOf(batch, 0, 4) + 6, lost = MinusSumOf(batch, 6, 8) + 4;
  const double p = Sigmoid(0.3 * (won - 0.4)), q = Sigmoid(0.3 * (0.4 - lost));
  EXPECT_DOUBLE_EQ(got.loss, 1.5 * (1 - p) + 0.5 * (1 - q));
  EXPECT_EQ(got.weights[0], static_cast<float>(1.5 * 0.3 * p * (1 - p)));
  EXPECT_EQ(got.weights[7], static_cast<float>(-0.5 * 0.3 * q * (1 - q)));
  EXPECT_EQ(got.weights[4], 0.0f);
  EXPECT_EQ(got.reports.chosen, 1);
  EXPECT_DOUBLE_EQ(got.reports.rewards_rejected, 0.3 * lost);
}

TEST(DocumentLossTest, RefusesMixedAndEmptySpecs) {
  DocumentLossSpec spec = SpecOf(DocumentTerm::kKto);
  EXPECT_TRUE(DocumentLossSupports(spec));
  spec.pairs = true;
  EXPECT_FALSE(DocumentLossSupports(spec));
  spec = SpecOf(DocumentTerm::kSigmoid);
  spec.terms = 0;
  EXPECT_FALSE(DocumentLossSupports(spec));
  spec = SpecOf(DocumentTerm::kRobust);
  spec.label_smoothing = 0.5;
  EXPECT_FALSE(DocumentLossSupports(spec));
  EXPECT_THROW(DocumentLoss({.spec = spec}, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace document_loss_test
}  // namespace coxswain::kernels
