#include "controller/export/score_labels.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"

namespace coxswain::exports {

void DescribeScores(const config::JobSpec& job, const plan::Plan& plan,
                    nlohmann::ordered_json* config) {
  const model::Family* family = model::FindFamily(plan.model.architecture);
  (*config)["architectures"] = {std::string(family->score_class)};
  const std::vector<std::string>& names = job.classification.label_names;
  nlohmann::ordered_json name_of = nlohmann::ordered_json::object(), number_of = name_of;
  for (int64_t label = 0; label < plan.model.labels; ++label) {
    const std::string name =
        names.empty() ? absl::StrCat("LABEL_", label) : names[static_cast<size_t>(label)];
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

}  // namespace coxswain::exports
