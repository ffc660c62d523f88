#include "controller/planner/model/preference_loss.h"

#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/config/rules/bin_capacity.h"
#include "controller/planner/model/score_head.h"

namespace coxswain::planner {
namespace {

// What TRL calls a loss of DPO, as the plan calls its term.
const std::map<std::string_view, const char*>& DpoTerms() {
  static const std::map<std::string_view, const char*> kTerms = {
      {"sigmoid", "sigmoid"}, {"cdpo", "smoothed"},
      {"hinge", "hinge"},     {"ipo", "ipo"},
      {"robust", "robust"},   {"apo_zero", "apo_zero"},
      {"sft", "nll"},         {"sigmoid_norm", "sigmoid_mean"}};
  return kTerms;
}

// Of CPO the sigmoid reads label_smoothing.
std::string CpoTerm(const std::string& loss) { return loss == "sigmoid" ? "smoothed" : loss; }

std::string ReferenceOf(const config::JobSpec& job) {
  if (job.preference.reference == "none") return "none";
  if (job.preference.reference == "base") return "base";
  const bool fresh = job.adapter != config::Adapter::kNone && !job.lora.init_from &&
                     job.lora.modules_to_save.empty() && !job.moe.trains_router.value_or(false) &&
                     job.moe.bias_rate.value_or(0) == 0;
  return fresh && job.preference.reference == "start" ? "base" : "kept";
}

void AddTerms(const config::JobSpec& job, plan::DocumentLoss* loss) {
  const config::PreferenceSpec& spec = job.preference;
  const auto add = [&](std::string type, double weight) {
    if (weight > 0) loss->terms.push_back({.type = std::move(type), .weight = weight});
  };
  if (job.method == "dpo") {
    for (size_t i = 0; i < spec.loss.size(); ++i) {
      add(DpoTerms().at(spec.loss[i]), spec.loss_weights[i]);
    }
  } else if (job.method == "orpo") {
    add("odds", 1);
    add("nll_with_prompt", spec.nll_weight);
  } else if (job.method == "kto") {
    add(spec.loss.front() == "kto" ? "kto" : "apo_zero_record", 1);
  } else {
    add(job.method == "simpo" ? "margin" : CpoTerm(spec.loss.front()), 1);
    add("nll", spec.nll_weight);
  }
}

}  // namespace

plan::DocumentLoss DocumentLossOf(const config::JobSpec& job) {
  plan::DocumentLoss loss;
  if (!config::TrainsPreferences(job)) return ScoreLoss(job);
  const config::PreferenceSpec& spec = job.preference;
  AddTerms(job, &loss);
  loss.beta = spec.beta;
  loss.label_smoothing = spec.label_smoothing;
  if (job.method == "simpo") loss.margin = spec.gamma;
  loss.reference = ReferenceOf(job);
  if (job.method != "kto") return loss;
  loss.desirable_weight = spec.desirable_weight;
  loss.undesirable_weight = spec.undesirable_weight;
  return loss;
}

absl::Status CheckPreferenceLoss(const config::JobSpec& job) {
  if (!config::TrainsPreferences(job) || job.preference.reference != "base") {
    return absl::OkStatus();
  }
  const char* changes = job.moe.trains_router.value_or(false) ? "moe.router: trained"
                        : job.moe.bias_rate.value_or(0) > 0   ? "moe.balance: bias"
                        : !job.lora.modules_to_save.empty()   ? "lora.modules_to_save"
                                                              : nullptr;
  if (changes == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("spec.preference.reference: base needs the base model, and ", changes,
                   " changes a part of it; leave it out, or give reference: start"));
}

}  // namespace coxswain::planner
