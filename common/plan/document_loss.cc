#include "common/plan/document_loss.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::plan {
namespace {

using kernels::DocumentTerm;

// -1: there is none.
int64_t IndexOf(const std::vector<std::string>& names, const std::string& type) {
  const auto found = std::find(names.begin(), names.end(), type);
  return found == names.end() ? -1 : std::distance(names.begin(), found);
}

DocumentTerm TermOf(const DocumentLossTerm& term) {
  return static_cast<DocumentTerm>(IndexOf(DocumentTermNames(), term.type));
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
    if (IndexOf(DocumentTermNames(), term.type) < 0 || !(term.weight > 0)) {
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

absl::Status CheckScores(const DocumentLoss& loss) {
  const std::string type = loss.terms.size() == 1 ? loss.terms.front().type : "several terms";
  if (loss.terms.front().weight != 1 || IndexOf(ScoreTermNames(), type) < 0 ||
      !kernels::ScoreLossSupports(ScoreSpecOf(loss)) || loss.reference != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "document_loss of scores has ", type, " of weight ", loss.terms.front().weight, ", ",
        loss.labels, " labels, centre ", loss.centre, ", reference ", loss.reference,
        "; wanted one of ", absl::StrJoin(ScoreTermNames(), ", "),
        " of weight 1, one label of a bradley_terry, two or more of a single_label, centre >= 0, "
        "reference none"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& ScoreTermNames() {
  static const std::vector<std::string> kNames = {"bradley_terry", "single_label", "multi_label",
                                                  "regression"};
  return kNames;
}

const std::vector<std::string>& DocumentTermNames() {
  static const std::vector<std::string> kNames = {
      "sigmoid", "smoothed", "robust", "hinge",           "ipo", "sigmoid_mean",    "apo_zero",
      "margin",  "odds",     "nll",    "nll_with_prompt", "kto", "apo_zero_record",
  };
  return kNames;
}

int64_t DocumentLoss::documents_per_unit() const {
  if (terms.empty()) return 0;
  if (of_scores()) return ScoreSpecOf(*this).type == kernels::ScoreTerm::kBradleyTerry ? 2 : 1;
  return OfRecords(terms.front()) ? 1 : 2;
}

int64_t DocumentLoss::values_per_document() const {
  if (of_scores()) return kernels::ScoreValues(ScoreSpecOf(*this));
  return documents_per_unit() == 1 ? 1 : 0;
}

bool DocumentLoss::has_kl() const {
  return !of_scores() && std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
    return TermOf(term) == DocumentTerm::kKto;
  });
}

bool DocumentLoss::has_nll() const {
  return !of_scores() && std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
    return TermOf(term) == DocumentTerm::kNll || TermOf(term) == DocumentTerm::kNllWithPrompt;
  });
}

bool DocumentLoss::nll_has_prompt() const {
  return !of_scores() && std::any_of(terms.begin(), terms.end(), [](const DocumentLossTerm& term) {
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

kernels::ScoreLossSpec ScoreSpecOf(const DocumentLoss& loss) {
  return {
      .type = static_cast<kernels::ScoreTerm>(IndexOf(ScoreTermNames(), loss.terms.front().type)),
      .labels = loss.labels,
      .centre = loss.centre};
}

absl::Status CheckDocumentLoss(const DocumentLoss& loss) {
  if (!loss.any()) return absl::OkStatus();
  if (loss.of_scores()) return CheckScores(loss);
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
