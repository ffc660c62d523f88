#include "common/config/rules/score_rules.h"

#include <algorithm>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/rules/validate.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReward = "reward";
constexpr const char* kClassification = "classification";
constexpr const char* kNumLabels = "spec.classification.num_labels";
constexpr const char* kLabelNames = "spec.classification.label_names";

// A section is that of the method with its name.
void CheckSection(const char* section, const std::string& method, Validated* job) {
  if (method == section) return;
  const std::string path = absl::StrCat("spec.", section);
  const Json& keys = At(job->effective, path);
  for (const auto& [key, value] : keys.items()) {
    if (value.is_null()) continue;
    AddError(absl::StrCat(path, ".", key),
             absl::StrCat("goes with method ", section, "; method is ", method), job);
  }
}

void CheckLabelNames(const Json& names, Validated* job) {
  if (names.empty()) return AddError(kLabelNames, "expected at least one name, got none", job);
  std::set<std::string> seen;
  for (const Json& name : names) {
    if (name == "") return AddError(kLabelNames, "holds an empty name", job);
    if (!seen.insert(name).second) {
      return AddError(kLabelNames, absl::StrCat(name.get<std::string>(), " is named twice"), job);
    }
  }
}

// Wrong values were reported already and stand as null.
bool IsToldOf(const char* path, const Validated& job) {
  return std::any_of(job.errors.begin(), job.errors.end(),
                     [&](const ConfigError& error) { return error.path == path; });
}

void CheckLabels(Validated* job) {
  const Json &number = At(job->effective, kNumLabels), &names = At(job->effective, kLabelNames);
  if (names.is_array()) CheckLabelNames(names, job);
  if (IsToldOf(kNumLabels, *job) || IsToldOf(kLabelNames, *job)) return;
  if (number.is_null() && names.is_null()) {
    job->errors.push_back({kNumLabels, LineOf(*job, "spec.method"),
                           "missing; method: classification needs the number of classes, or "
                           "label_names"});
    return;
  }
  const auto count = static_cast<int64_t>(names.size());
  if (number.is_number() && names.is_array() && number != count) {
    return AddError(kNumLabels,
                    absl::StrCat("is ", number.dump(), ", and label_names has ", count,
                                 count == 1 ? " name" : " names", "; leave one of the two out"),
                    job);
  }
  const Json& problem = At(job->effective, "spec.classification.problem");
  const int64_t labels = number.is_number() ? number.get<int64_t>() : count;
  if (labels > 1 || (problem != "single_label" && !problem.is_null())) return;
  AddError(number.is_number() ? kNumLabels : kLabelNames,
           "gives one class, which every text has; problem: single_label has at least 2, "
           "multi_label and regression 1",
           job);
}

// The last word of a path, as PEFT matches names by their ends.
bool NamesHead(const std::string& module) {
  const std::string end = module.substr(module.rfind('.') + 1);
  return end == "lm_head" || end == "output";
}

// The score head stands in the place of the LM head, and always trains in full.
void CheckNoHead(const std::string& method, Validated* job) {
  const std::string prompts = "spec.eval.sample_prompts";
  const Json& asked = At(job->effective, prompts);
  if (asked.is_array() && !asked.empty()) {
    AddError(prompts, absl::StrCat("goes with a model that answers; method is ", method), job);
  }
  if (At(job->effective, "spec.adapter") == "none") return;
  for (const char* path : {"spec.lora.target_modules", "spec.lora.modules_to_save"}) {
    const Json& modules = At(job->effective, path);
    for (const Json& module : modules.is_array() ? modules : Json::array()) {
      if (!NamesHead(module)) continue;
      AddError(path,
               absl::StrCat(module.get<std::string>(), " is not in a model of method ", method,
                            "; its score head trains in full"),
               job);
    }
  }
}

// Under an adapter the head is trained in full, as PEFT does it.
void SaveHead(Json* spec) {
  if ((*spec)["adapter"] == "none") return;
  Json& saved = (*spec)["lora"]["modules_to_save"];
  if (std::find(saved.begin(), saved.end(), "score") == saved.end()) saved.push_back("score");
}

}  // namespace

bool IsScoreMethod(std::string_view method) {
  return method == kReward || method == kClassification;
}

int64_t ScoreLabels(const JobSpec& job) {
  if (job.method == kReward) return 1;
  return job.method == kClassification ? job.classification.num_labels : 0;
}

void CheckScores(Validated* job) {
  const Json& name = At(job->effective, "spec.method");
  if (!name.is_string()) return;
  const std::string method = name;
  CheckSection(kReward, method, job);
  CheckSection(kClassification, method, job);
  if (method == kClassification) CheckLabels(job);
  if (IsScoreMethod(method)) CheckNoHead(method, job);
}

void ResolveScores(Json* spec) {
  const Json& method = (*spec)["method"];
  if (IsScoreMethod(method.get<std::string>())) SaveHead(spec);
  Json& coefficient = (*spec)["reward"]["center_coefficient"];
  if (method == kReward && coefficient.is_null()) coefficient = 0.0;
  if (method != kClassification) return;
  Json& section = (*spec)["classification"];
  if (section["num_labels"].is_null()) section["num_labels"] = section["label_names"].size();
  if (section["problem"].is_null()) section["problem"] = "single_label";
}

}  // namespace coxswain::config
