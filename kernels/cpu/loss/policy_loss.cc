// In double, documents and rows in order, so that the bits do not depend on the threads.
#include "kernels/loss/policy_loss.h"

#include "kernels/cpu/check.h"
#include "kernels/loss/policy_terms.h"

namespace coxswain::kernels {
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
