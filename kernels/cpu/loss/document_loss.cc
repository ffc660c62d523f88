// In double, documents and units in order, so that the bits do not depend on the threads.
#include "kernels/loss/document_loss.h"
#include "kernels/cpu/check.h"
#include "kernels/loss/document_terms.h"
#include "kernels/loss/policy_loss.h"
#include "kernels/loss/policy_terms.h"

namespace coxswain::kernels {
namespace {

double MinusSum(const float* nll, int64_t begin, int64_t end) {
  double sum = 0.0;
  for (int64_t row = begin; row < end; ++row) sum -= nll[row];
  return sum;
}

void AddUnit(const DocumentLossArgs& args, int64_t unit) {
  const int64_t first = args.spec.pairs ? 2 * unit : unit;
  if (args.rows[first].begin < 0) return;
  const UnitValue value = args.spec.pairs ? PairValue(args, unit) : RecordValue(args, unit);
  args.coefficients[first] = value.chosen;
  if (args.spec.pairs) args.coefficients[first + 1] = value.rejected;
  *args.loss += value.loss;
  AddReport(value.report, args.reports);
}

void WriteWeights(const DocumentLossArgs& args, int64_t document) {
  const DocumentRows& rows = args.rows[document];
  const bool in_nll = args.spec.pairs && document % 2 == 0;
  for (int64_t row = rows.begin; rows.begin >= 0 && row < rows.end; ++row) {
    const bool scored = row >= rows.scored;
    double weight = scored ? args.coefficients[document] : 0.0;
    if (in_nll) weight += NllWeight(args.spec, args.scalars->nll_ratio, scored);
    args.weights[row] = static_cast<float>(weight);
  }
}

}  // namespace

void SumDocuments(const SumDocumentsArgs& args, Stream* stream) {
  for (int64_t i = 0; i < args.documents; ++i) {
    const DocumentRows& rows = args.rows[i];
    args.sums[i] = {};
    if (rows.begin < 0) continue;
    const double scored = MinusSum(args.nll, rows.scored, rows.end);
    args.sums[i] = {scored, scored + MinusSum(args.nll, rows.begin, rows.scored)};
  }
}

void DocumentLoss(const DocumentLossArgs& args, Stream* stream) {
  cpu::RequireSupported(DocumentLossSupports(args.spec), "DocumentLoss");
  const int64_t units = args.spec.pairs ? args.documents / 2 : args.documents;
  for (int64_t unit = 0; unit < units; ++unit) AddUnit(args, unit);
  if (args.weights == nullptr) return;
  for (int64_t i = 0; i < args.documents; ++i) WriteWeights(args, i);
}

// In double, documents and rows in order, so that the bits do not depend on the threads.

namespace {

double MeanLogRatio(const PolicyLossArgs& args, const DocumentRows& rows) {
  double sum = 0.0;
  for (int64_t row = rows.scored; row < rows.end; ++row) sum += LogRatioOf(args, row);
  return sum / static_cast<double>(rows.end - rows.scored);
}

void AddDocument(const PolicyLossArgs& args, int64_t document) {
  const DocumentRows& rows = args.rows[document];
  if (rows.begin < 0 || rows.scored >= rows.end) return;
  const double count = rows.end - rows.scored;
  const double mean = args.spec.sequence_ratio ? MeanLogRatio(args, rows) : 0.0;
  PolicyPart part;
  for (int64_t row = rows.scored; row < rows.end; ++row) {
    AddRow(PolicyValueAt(args, row, mean), &part);
  }
  args.parts[document] = part;
  *args.loss += part.loss * RowFactor(args.spec, count);
  AddReport(PolicyReport(args.spec, part, count), args.reports);
  for (int64_t row = rows.scored; args.weights != nullptr && row < rows.end; ++row) {
    args.weights[row] = PolicyWeight(args.spec, PolicyValueAt(args, row, mean), part.slope, count);
  }
}

// Rows of a document that are not scored weigh nothing.
void ClearPrompt(const PolicyLossArgs& args, const DocumentRows& rows) {
  for (int64_t row = rows.begin; rows.begin >= 0 && row < rows.scored; ++row) {
    args.weights[row] = 0.0f;
  }
}

}  // namespace

void PolicyLoss(const PolicyLossArgs& args, Stream* stream) {
  cpu::RequireSupported(
      PolicyLossSupports(args.spec) && (args.spec.kl_weight == 0 || args.references != nullptr),
      "PolicyLoss");
  cpu::RequireExtent(args.documents, "PolicyLoss", "documents");
  for (int64_t i = 0; i < args.documents; ++i) {
    AddDocument(args, i);
    if (args.weights != nullptr) ClearPrompt(args, args.rows[i]);
  }
}

}  // namespace coxswain::kernels
