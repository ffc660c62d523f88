#include "common/plan/document_loss.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::plan {
namespace {

using kernels::DocumentTerm;

// -1: there is none.
int64_t IndexOf(const std::string& type) {
  const std::vector<std::string>& names = DocumentTermNames();
  const auto found = std::find(names.begin(), names.end(), type);
  return found == names.end() ? -1 : std::distance(names.begin(), found);
}

DocumentTerm TermOf(const DocumentLossTerm& term) {
  return static_cast<DocumentTerm>(IndexOf(term.type));
}

bool OfRecords(const DocumentLossTerm& term) {
  return TermOf(term) == DocumentTerm::kKto || TermOf(term) == DocumentTerm::kApoZeroRecord;
}

// TRL reports means where the loss is of means and there is no reference, else sums.
bool ReportsMeans(const DocumentLoss& loss) {
  return loss.reference == "none" &&
         std::any_of(loss.terms.begin(), loss.terms.end(), [](const DocumentLossTerm& term) {
           const DocumentTerm type = TermOf(term);
           return type == DocumentTerm::kMargin || type == DocumentTerm::kOdds ||
                  type == DocumentTerm::kIpo;
         });
}

absl::Status CheckTerms(const DocumentLoss& loss) {
  if (loss.terms.size() > kernels::kMostDocumentTerms) {
    return absl::InvalidArgumentError(absl::StrCat("document_loss has ", loss.terms.size(),
                                                   " terms, at most ", kernels::kMostDocumentTerms,
                                                   " are added"));
  }
  for (const DocumentLossTerm& term : loss.terms) {
    if (IndexOf(term.type) < 0 || !(term.weight > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "document_loss has the term ", term.type, " with weight ", term.weight,
          "; the weight is > 0, the term one of ", absl::StrJoin(DocumentTermNames(), ", ")));
    }
    if (OfRecords(term) != OfRecords(loss.terms.front())) {
      return absl::InvalidArgumentError(absl::StrCat("document_loss: ", loss.terms.front().type,
                                                     " and ", term.type,
                                                     ", one of pairs and one of records"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& DocumentTermNames() {
  static const std::vector<std::string> kNames = {
      "sigmoid", "smoothed", "robust", "hinge",           "ipo", "sigmoid_mean",    "apo_zero",
      "margin",  "odds",     "nll",    "nll_with_prompt", "kto", "apo_zero_record",
  };
  return kNames;
}

int64_t DocumentLoss::documents_per_unit() const {
  if (terms.empty()) return 0;
  return OfRecords(terms.front()) ? 1 : 2;
}

bool DocumentLoss::has_kl() const {
  return std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
    return TermOf(term) == DocumentTerm::kKto;
  });
}

bool DocumentLoss::has_nll() const {
  return std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
    return TermOf(term) == DocumentTerm::kNll || TermOf(term) == DocumentTerm::kNllWithPrompt;
  });
}

bool DocumentLoss::nll_has_prompt() const {
  return std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
    return TermOf(term) == DocumentTerm::kNllWithPrompt;
  });
}

kernels::DocumentLossSpec SpecOf(const DocumentLoss& loss) {
  kernels::DocumentLossSpec spec;
  spec.pairs = loss.documents_per_unit() == 2;
  spec.terms = static_cast<int32_t>(loss.terms.size());
  for (size_t i = 0; i < loss.terms.size(); ++i) {
    spec.type[i] = TermOf(loss.terms[i]);
    spec.weight[i] = loss.terms[i].weight;
  }
  spec.beta = loss.beta;
  spec.label_smoothing = loss.label_smoothing;
  spec.margin = loss.margin;
  spec.desirable_weight = loss.desirable_weight;
  spec.undesirable_weight = loss.undesirable_weight;
  spec.mean_rewards = ReportsMeans(loss);
  return spec;
}

absl::Status CheckDocumentLoss(const DocumentLoss& loss) {
  if (!loss.any()) return absl::OkStatus();
  if (absl::Status terms = CheckTerms(loss); !terms.ok()) return terms;
  if (!(loss.beta > 0) || !(loss.label_smoothing >= 0 && loss.label_smoothing < 0.5) ||
      !(loss.margin >= 0) || !(loss.desirable_weight >= 0) || !(loss.undesirable_weight >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "document_loss has beta ", loss.beta, ", label smoothing ", loss.label_smoothing,
        ", margin ", loss.margin, ", weights ", loss.desirable_weight, " and ",
        loss.undesirable_weight, "; beta is > 0, smoothing in [0, 0.5), the others >= 0"));
  }
  if (loss.reference != "none" && loss.reference != "base" && loss.reference != "kept") {
    return absl::InvalidArgumentError(absl::StrCat("document_loss has the reference ",
                                                   loss.reference, ", must be none, base or kept"));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::plan
