#include "controller/export/score_labels.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"

namespace coxswain::exports {
namespace {

std::string NameOf(const config::JobSpec& job, int64_t label) {
  const std::vector<std::string>& names = job.classification.label_names;
  return names.empty() ? absl::StrCat("LABEL_", label) : names[static_cast<size_t>(label)];
}

}  // namespace

void DescribeScores(const config::JobSpec& job, const plan::Plan& plan,
                    nlohmann::ordered_json* config) {
  const model::Family* family = model::FindFamily(plan.model.architecture);
  (*config)["architectures"] = {std::string(family->score_class)};
  nlohmann::ordered_json name_of = nlohmann::ordered_json::object(), number_of = name_of;
  for (int64_t label = 0; label < plan.model.labels; ++label) {
    const std::string name = NameOf(job, label);
    name_of[absl::StrCat(label)] = name;
    number_of[name] = label;
  }
  (*config)["id2label"] = name_of;
  (*config)["label2id"] = number_of;
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
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (int64_t label = 0; label < plan.model.labels; ++label) names.push_back(NameOf(job, label));
  const std::string padding =
      plan.model.pad_token ? absl::StrCat(", pad_token_id=", *plan.model.pad_token) : "";
  return absl::StrCat(
      "\nThe score of a text is taken at its last token that is no padding. Load:\n",
      "\n```python\nnames = ", names.dump(),
      "\nmodel = AutoModelForSequenceClassification.from_pretrained(", nlohmann::json(base).dump(),
      ", num_labels=", plan.model.labels, ", id2label=dict(enumerate(names))", padding,
      ")\nmodel = PeftModel.from_pretrained(model, \".\")\n```\n");
}

}  // namespace coxswain::exports
