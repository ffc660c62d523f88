#include "common/config/rules/method_rules.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/rules/preference_rules.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

// A method that does not read every format.
struct MethodInputs {
  const char* method;
  std::vector<std::string> formats;  // beside auto; the first one is what auto means
  const char* does;                  // with whole documents; null: tokens have a loss
};

const std::vector<MethodInputs>& AllInputs() {
  static const char* const kCompares = "compares whole completions, which follow the prompt";
  static const char* const kScores = "scores whole documents";
  static const auto* inputs = new std::vector<MethodInputs>{
      {"pretrain", {"completion"}, nullptr},
      {"dpo", {"preference"}, kCompares},
      {"orpo", {"preference"}, kCompares},
      {"cpo", {"preference"}, kCompares},
      {"simpo", {"preference"}, kCompares},
      {"kto", {"unpaired_preference", "preference"}, kCompares},
      {"reward", {"preference"}, kScores},
      {"classification", {"classification"}, kScores},
  };
  return *inputs;
}

const MethodInputs* FindInputs(const std::string& method) {
  for (const MethodInputs& inputs : AllInputs()) {
    if (method == inputs.method) return &inputs;
  }
  return nullptr;
}

bool ReadsFormat(const MethodInputs& inputs, const std::string& format) {
  return std::find(inputs.formats.begin(), inputs.formats.end(), format) != inputs.formats.end();
}

// Methods that read the format, where no other method does: "dpo, orpo".
std::string OwnersOf(const std::string& format) {
  if (format == "completion") return "";  // sft reads it too
  std::vector<std::string> names;
  for (const MethodInputs& inputs : AllInputs()) {
    if (ReadsFormat(inputs, format)) names.push_back(inputs.method);
  }
  return absl::StrJoin(names, ", ");
}

void CheckFormat(const std::string& method, const std::string& list, size_t i, Validated* job) {
  const Json& format = At(At(job->effective, list)[i], "format");
  if (!format.is_string() || format == "auto") return;
  const std::string word = format, key = absl::StrCat(list, "[", i, "].format");
  const MethodInputs* inputs = FindInputs(method);
  std::string message;
  if (inputs == nullptr) {
    const std::string owners = OwnersOf(word);
    if (owners.empty()) return;
    message = absl::StrCat(word, " goes with method ", owners, "; method is ", method);
  } else {
    if (ReadsFormat(*inputs, word)) return;
    message =
        absl::StrCat("method ", method, " reads format: ", inputs->formats.front(), ", got ", word);
  }
  const int line = LineOf(*job, key) > 0 ? LineOf(*job, key) : LineOf(*job, list);
  job->errors.push_back({key, line, std::move(message)});
}

void CheckLossOfTokens(const std::string& method, Validated* job) {
  for (const char* key : {"label_smoothing", "z_loss"}) {
    const std::string path = absl::StrCat("spec.train.", key);
    const Json& value = At(job->effective, path);
    if (!value.is_number() || value == 0.0) continue;
    const bool smooths = std::string_view(key) == "label_smoothing" && IsPreferenceMethod(method);
    AddError(path,
             absl::StrCat("is of the loss of sft and pretrain; method is ", method,
                          smooths ? ", and smooths by preference.label_smoothing" : ""),
             job);
  }
}

void CheckTargetsOfTokens(const MethodInputs& inputs, Validated* job) {
  const std::pair<const char*, Json> usual[] = {{"train_on_inputs", false},
                                                {"train_on", "all"},
                                                {"train_on_eos", "turn"},
                                                {"roles_to_train", Json::array({"assistant"})}};
  for (const auto& [key, value] : usual) {
    const std::string path = absl::StrCat("spec.", key);
    const Json& given = At(job->effective, path);
    if (given.is_null() || given == value) continue;
    AddError(path, absl::StrCat("goes with method sft; method ", inputs.method, " ", inputs.does),
             job);
  }
  if (At(job->effective, "spec.excess_length") != "split") return;
  AddError("spec.excess_length",
           absl::StrCat("split cuts a document into several, and method ", inputs.method, " ",
                        inputs.does, "; give truncate, drop or error"),
           job);
}

// A pair, and a completion with the one of its KL, share a bin.
void CheckBins(const MethodInputs& inputs, Validated* job) {
  const std::string path = "spec.packing.max_documents_per_bin";
  const bool alone =
      At(job->effective, "spec.preference.loss") == Json::array({"apo_zero_unpaired"});
  const bool units = std::string_view(inputs.method) != "classification" && !alone;
  if (!units || At(job->effective, path) != 1) return;
  if (At(job->effective, "spec.packing.strategy") == "none") return;
  AddError(
      path,
      absl::StrCat("is 1; method ", inputs.method, " keeps two documents in a bin, give 2 or more"),
      job);
}

}  // namespace

void CheckMethod(Validated* job) {
  const Json& name = At(job->effective, "spec.method");
  if (!name.is_string()) return;
  const std::string method = name;
  for (const std::string list : {"spec.datasets", "spec.test_datasets"}) {
    const Json& sources = At(job->effective, list);
    for (size_t i = 0; sources.is_array() && i < sources.size(); ++i) {
      CheckFormat(method, list, i, job);
    }
  }
  const MethodInputs* inputs = FindInputs(method);
  if (inputs == nullptr || inputs->does == nullptr) return;
  CheckLossOfTokens(method, job);
  CheckTargetsOfTokens(*inputs, job);
  CheckBins(*inputs, job);
}

}  // namespace coxswain::config
