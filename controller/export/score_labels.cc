#include "controller/export/score_labels.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"

namespace coxswain::exports {
namespace {

// The head of a base keeps the names that the base has for its labels.
bool KeepsNames(const config::JobSpec& job, const plan::Plan& plan) {
  return !plan.model.new_head && job.classification.label_names.empty();
}

std::string NameOf(const config::JobSpec& job, int64_t label) {
  const std::vector<std::string>& names = job.classification.label_names;
  return names.empty() ? absl::StrCat("LABEL_", label) : names[static_cast<size_t>(label)];
}

void NameLabels(const config::JobSpec& job, int64_t labels, nlohmann::ordered_json* config) {
  nlohmann::ordered_json name_of = nlohmann::ordered_json::object(), number_of = name_of;
  for (int64_t label = 0; label < labels; ++label) {
    const std::string name = NameOf(job, label);
    name_of[absl::StrCat(label)] = name;
    number_of[name] = label;
  }
  config->erase("num_labels");
  (*config)["id2label"] = name_of;
  (*config)["label2id"] = number_of;
}

// The options of from_pretrained for an adapter's base.
std::string HeadOptions(const config::JobSpec& job, const plan::Plan& plan) {
  std::string options;
  if (!KeepsNames(job, plan)) {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (int64_t label = 0; label < plan.model.labels; ++label) names.push_back(NameOf(job, label));
    absl::StrAppend(&options, ", num_labels=", plan.model.labels, ", id2label=dict(enumerate(",
                    names.dump(), "))");
  }
  if (plan.model.pad_token) absl::StrAppend(&options, ", pad_token_id=", *plan.model.pad_token);
  return options;
}

}  // namespace

void DescribeScores(const config::JobSpec& job, const plan::Plan& plan,
                    nlohmann::ordered_json* config) {
  const model::Family* family = model::FindFamily(plan.model.architecture);
  (*config)["architectures"] = {std::string(family->score_class)};
  if (!KeepsNames(job, plan)) NameLabels(job, plan.model.labels, config);
  if (job.method == "classification") {
    const std::string& problem = job.classification.problem;
    (*config)["problem_type"] =
        problem == "regression" ? problem : absl::StrCat(problem, "_classification");
  }
  if (plan.model.pad_token) (*config)["pad_token_id"] = *plan.model.pad_token;
}

std::string LoadingScores(const config::JobSpec& job, const plan::Plan& plan,
                          const std::string& base) {
  if (plan.model.labels == 0) return "";
  return absl::StrCat(
      "\nThe score of a text is taken at its last token that is no padding. Load:\n",
      "\n```python\nmodel = AutoModelForSequenceClassification.from_pretrained(",
      nlohmann::json(base).dump(), HeadOptions(job, plan),
      ")\nmodel = PeftModel.from_pretrained(model, \".\")\n```\n");
}

}  // namespace coxswain::exports
