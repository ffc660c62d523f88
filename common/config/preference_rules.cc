#include "common/config/preference_rules.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr const char* kSection = "spec.preference.";

struct Method {
  const char* name;
  Words losses;  // the first one is the default
  Words keys;    // of `preference`, that it reads
  double beta;
  double nll_weight;
};

const std::vector<Method>& Methods() {
  static const auto* methods = new std::vector<Method>{
      {"dpo",
       {"sigmoid", "cdpo", "hinge", "ipo", "robust", "apo_zero", "sigmoid_norm", "sft"},
       {"loss", "loss_weights", "beta", "label_smoothing", "reference"},
       0.1,
       0.0},
      {"orpo", {"orpo"}, {"loss", "beta", "nll_weight", "reference"}, 0.1, 1.0},
      {"cpo",
       {"sigmoid", "hinge", "ipo"},
       {"loss", "beta", "label_smoothing", "nll_weight", "reference"},
       0.1,
       1.0},
      {"simpo",
       {"simpo"},
       {"loss", "beta", "label_smoothing", "gamma", "nll_weight", "reference"},
       2.0,
       0.0},
      {"kto",
       {"kto", "apo_zero_unpaired"},
       {"loss", "beta", "reference", "desirable_weight", "undesirable_weight"},
       0.1,
       0.0},
  };
  return *methods;
}

const Method* FindMethod(std::string_view name) {
  for (const Method& method : Methods()) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

bool Has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Methods that have the loss, or read the key: "dpo, cpo".
std::string MethodsOf(Words Method::*list, const std::string& word) {
  Words names;
  for (const Method& method : Methods()) {
    if (Has(method.*list, word)) names.push_back(method.name);
  }
  return absl::StrJoin(names, ", ");
}

// Compares with a reference; the others take log-probabilities as they are.
bool HasReference(const Method& method) {
  return std::string_view(method.name) == "dpo" || std::string_view(method.name) == "kto";
}

// Checks the keys of one job. Values that are wrong already stand as null, and are passed over.
class PreferenceCheck {
 public:
  explicit PreferenceCheck(Validated* job) : job_(job) {}

  void Check() {
    const Json method = At("spec.method");
    if (!method.is_string()) return;
    name_ = method.get<std::string>();
    const Method* found = FindMethod(name_);
    CheckKeys(found);
    CheckFormats(found);
    if (found == nullptr) return;
    CheckLosses(*found);
    CheckWeights();
    CheckSmoothing();
    CheckReference(*found);
    CheckOtherLosses();
    CheckTargets();
    CheckBins();
  }

 private:
  Json At(const std::string& path) const {
    const Json* node = &job_->effective;
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('.', begin), path.size());
      const auto found = node->find(path.substr(begin, end - begin));
      if (found == node->end()) return nullptr;
      node = &*found;
      begin = end + 1;
    }
    return *node;
  }

  Json Of(const char* key) const { return At(absl::StrCat(kSection, key)); }

  void Error(const std::string& path, std::string message) {
    job_->errors.push_back({path, LineOf(*job_, path), std::move(message)});
  }
  void ErrorOf(const char* key, std::string message) {
    Error(absl::StrCat(kSection, key), std::move(message));
  }

  void CheckKeys(const Method* method) {
    const Json section = At("spec.preference");
    for (const auto& [key, value] : section.items()) {
      if (value.is_null() || (method != nullptr && Has(method->keys, key))) continue;
      std::string message =
          absl::StrCat("goes with method ", MethodsOf(&Method::keys, key), "; method is ", name_);
      if (name_ == "dpo" && key == "nll_weight") {
        absl::StrAppend(&message, ". Add the loss sft, with its factor in loss_weights");
      }
      ErrorOf(key.c_str(), std::move(message));
    }
  }

  // Pairs are also read as good and bad completions.
  void CheckFormats(const Method* method) {
    const Words ours = method == nullptr ? Words()
                       : name_ == "kto"  ? Words{"auto", "unpaired_preference", "preference"}
                                         : Words{"auto", "preference"};
    for (const std::string list : {"spec.datasets", "spec.test_datasets"}) {
      const Json sources = At(list);
      for (size_t i = 0; sources.is_array() && i < sources.size(); ++i) {
        const auto format = sources[i].find("format");
        if (format == sources[i].end() || !format->is_string()) continue;
        CheckFormat(absl::StrCat(list, "[", i, "].format"), *format, ours);
      }
    }
  }

  void CheckFormat(const std::string& path, const std::string& format, const Words& ours) {
    if (Has(ours, format)) return;
    if (!ours.empty()) {
      return Error(path,
                   absl::StrCat("method ", name_, " reads format: ", ours[1], ", got ", format));
    }
    if (format == "preference") {
      Error(path, absl::StrCat("preference goes with method dpo, orpo, cpo, simpo, kto; method is ",
                               name_));
    }
    if (format == "unpaired_preference") {
      Error(path, absl::StrCat("unpaired_preference goes with method kto; method is ", name_));
    }
  }

  void CheckLosses(const Method& method) {
    const Json losses = Of("loss");
    if (!losses.is_array()) return;
    for (const Json& loss : losses) {
      const auto word = loss.get<std::string>();
      if (Has(method.losses, word)) continue;
      ErrorOf("loss",
              absl::StrCat(word, " goes with method ", MethodsOf(&Method::losses, word),
                           "; method ", name_, " has ", absl::StrJoin(method.losses, ", ")));
      return;
    }
    if (losses.size() > 1 && name_ != "dpo") {
      ErrorOf("loss", absl::StrCat("names ", losses.size(), " losses; method ", name_,
                                   " has one at a time, and dpo adds several"));
    }
  }

  void CheckWeights() {
    const Json weights = Of("loss_weights"), losses = Of("loss");
    if (!weights.is_array()) return;
    const size_t count = losses.is_array() ? losses.size() : 1;
    if (weights.size() == count) return;
    ErrorOf("loss_weights", absl::StrCat("has ", weights.size(), " numbers, and loss names ", count,
                                         count == 1 ? " loss" : " losses", "; give one for each"));
  }

  // TRL's DPO ignores it but for `robust`, and its CPO but for sigmoid and simpo.
  void CheckSmoothing() {
    const Json smoothing = Of("label_smoothing");
    if (!smoothing.is_number() || smoothing == 0.0) return;
    const Json losses = Of("loss");
    const auto named = [&losses](const char* word) {
      return losses.is_array() && std::find(losses.begin(), losses.end(), word) != losses.end();
    };
    if (name_ == "dpo" && !named("cdpo") && !named("robust")) {
      ErrorOf("label_smoothing",
              "acts on the losses cdpo and robust. With sigmoid, TRL ignores it: for conservative "
              "DPO give loss: cdpo, for robust DPO loss: robust");
    }
    if (name_ == "cpo" && (named("hinge") || named("ipo"))) {
      ErrorOf("label_smoothing", "acts on loss: sigmoid; hinge and ipo do not read it");
    }
  }

  void CheckReference(const Method& method) {
    const Json reference = Of("reference");
    if (!reference.is_string()) return;
    if (HasReference(method) == (reference == "none")) {
      ErrorOf("reference", HasReference(method)
                               ? absl::StrCat("method ", name_,
                                              " compares with a reference; give start, base "
                                              "or cached. Without one: orpo, cpo, simpo")
                               : absl::StrCat("method ", name_, " has no reference; leave it out"));
    }
    if (reference == "base" && At("spec.adapter") == "none" && HasReference(method)) {
      ErrorOf("reference",
              "base is the model without its adapter, and adapter is none; give start");
    }
  }

  void CheckOtherLosses() {
    for (const char* key : {"label_smoothing", "z_loss"}) {
      const std::string path = absl::StrCat("spec.train.", key);
      const Json value = At(path);
      if (!value.is_number() || value == 0.0) continue;
      const bool smoothing = std::string_view(key) == "label_smoothing";
      Error(path, absl::StrCat("is of the loss of sft and pretrain; method is ", name_,
                               smoothing ? ", and smooths by preference.label_smoothing" : ""));
    }
  }

  // A completion is all targets, as in TRL.
  void CheckTargets() {
    const std::pair<const char*, Json> usual[] = {{"train_on_inputs", false},
                                                  {"train_on", "all"},
                                                  {"train_on_eos", "turn"},
                                                  {"roles_to_train", Json::array({"assistant"})}};
    for (const auto& [key, value] : usual) {
      const std::string path = absl::StrCat("spec.", key);
      const Json given = At(path);
      if (given.is_null() || given == value) continue;
      Error(path, absl::StrCat("goes with method sft; method ", name_,
                               " compares whole completions, which follow the prompt"));
    }
    if (At("spec.excess_length") == "split") {
      Error("spec.excess_length",
            absl::StrCat("split cuts a document into several, and method ", name_,
                         " compares whole ones; give truncate, drop "
                         "or error"));
    }
  }

  void CheckBins() {
    const std::string path = "spec.packing.max_documents_per_bin";
    const Json losses = Of("loss");
    const bool alone = losses == Json::array({"apo_zero_unpaired"});
    if (At(path) != 1 || alone || At("spec.packing.strategy") == "none") return;
    Error(path, absl::StrCat("is 1; method ", name_,
                             " keeps two documents in a bin, give 2 or "
                             "more"));
  }

  Validated* const job_;
  std::string name_;
};

}  // namespace

bool IsPreferenceMethod(std::string_view method) { return FindMethod(method) != nullptr; }

void CheckPreference(Validated* job) { PreferenceCheck(job).Check(); }

void ResolvePreference(Json* spec) {
  const Method* method = FindMethod((*spec)["method"].get<std::string>());
  if (method == nullptr) return;
  Json& section = (*spec)["preference"];
  const auto fill = [&](const char* key, Json value) {
    if (section[key].is_null() && Has(method->keys, key)) section[key] = std::move(value);
  };
  fill("loss", Json::array({method->losses.front()}));
  fill("beta", method->beta);
  fill("label_smoothing", 0.0);
  fill("gamma", 0.5);
  fill("nll_weight", method->nll_weight);
  fill("reference", HasReference(*method) ? "start" : "none");
  fill("desirable_weight", 1.0);
  fill("undesirable_weight", 1.0);
  if (!Has(method->keys, "loss_weights")) return;
  fill("loss_weights", std::vector<double>(section["loss"].size(), 1.0));
}

}  // namespace coxswain::config
