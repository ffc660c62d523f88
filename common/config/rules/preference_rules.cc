#include "common/config/rules/preference_rules.h"

#include <algorithm>
#include <string>
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
    const Json method = AtSpec("spec.method");
    if (!method.is_string()) return;
    name_ = method.get<std::string>();
    const Method* found = FindMethod(name_);
    CheckKeys(found);
    if (found == nullptr) return;
    CheckLosses(*found);
    CheckWeights();
    CheckSmoothing();
    CheckReference(*found);
  }

 private:
  Json AtSpec(const char* path) const { return At(job_->effective, path); }
  Json Of(const char* key) const { return At(job_->effective, absl::StrCat(kSection, key)); }
  void ErrorOf(const char* key, std::string message) {
    AddError(absl::StrCat(kSection, key), std::move(message), job_);
  }

  void CheckKeys(const Method* method) {
    const Json section = AtSpec("spec.preference");
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
    if (reference == "base" && AtSpec("spec.adapter") == "none" && HasReference(method)) {
      ErrorOf("reference",
              "base is the model without its adapter, and adapter is none; give start");
    }
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
