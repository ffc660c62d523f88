// A loss that is a function of the log-probabilities of documents (kernels/loss/document_loss.h),
// or of their scores by a head of its own (kernels/loss/score_loss.h), as a plan has it.
#ifndef COXSWAIN_COMMON_PLAN_DOCUMENT_LOSS_H_
#define COXSWAIN_COMMON_PLAN_DOCUMENT_LOSS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/loss/document_loss.h"
#include "kernels/loss/score_loss.h"

namespace coxswain::plan {

struct DocumentLossTerm {
  std::string type;     // a name of DocumentTermNames() or ScoreTermNames()
  double weight = 1.0;  // > 0
  bool operator==(const DocumentLossTerm&) const = default;
};

struct DocumentLoss {
  std::vector<DocumentLossTerm> terms;  // none: the loss is a sum over targets
  double beta = 0.1;                    // > 0
  double label_smoothing = 0.0;         // [0, 1/2)
  double margin = 0.0;                  // of "margin", >= 0
  // "none"; "base": the model without its adapters, computed beside every step; "kept": sums that
  // the commands bring.
  std::string reference = "none";
  double desirable_weight = 1.0, undesirable_weight = 1.0;  // of records, >= 0
  int64_t labels = 0;   // scores of a document; 0: the terms are of log-probabilities
  double centre = 0.0;  // of "bradley_terry", >= 0

  bool any() const { return !terms.empty(); }
  bool of_scores() const { return labels > 0; }
  // 2: the chosen and the rejected document of a pair, in this order; 1: of a record; 0: none.
  int64_t documents_per_unit() const;
  // Numbers that each document brings: its label, margin, class or targets; 0: none.
  int64_t values_per_document() const;
  bool has_kl() const;          // of records: a term takes the KL of the step
  bool has_nll() const;         // some term has a denominator of its own
  bool nll_has_prompt() const;  // the rows of a chosen document begin at its first token
  bool operator==(const DocumentLoss&) const = default;
};

// In the order of kernels::DocumentTerm.
const std::vector<std::string>& DocumentTermNames();

// In the order of kernels::ScoreTerm.
const std::vector<std::string>& ScoreTermNames();

// `loss` must have passed CheckDocumentLoss, and be of log-probabilities or of scores.
kernels::DocumentLossSpec SpecOf(const DocumentLoss& loss);
kernels::ScoreLossSpec ScoreSpecOf(const DocumentLoss& loss);

// InvalidArgument names the field and its value.
absl::Status CheckDocumentLoss(const DocumentLoss& loss);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_DOCUMENT_LOSS_H_
