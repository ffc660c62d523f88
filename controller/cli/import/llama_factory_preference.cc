#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/schedule.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

constexpr char kOfPreference[] = "spec.preference.";

std::string Ours(const char* key) { return absl::StrCat(kOfPreference, key); }

// Source: LLaMA-Factory ff6d4d1, train/dpo/trainer.py: TRL's DPO of old, whose sigmoid smooths.
void TranslatePairLoss(Translation* t, const std::string& loss) {
  const Node* smoothing = t->Take("dpo_label_smoothing");
  const bool smooths = smoothing != nullptr && NumberOf(smoothing).value_or(0) > 0;
  std::vector<std::string> losses = {smooths ? "cdpo" : loss};
  if (smooths) {
    t->Set("dpo_label_smoothing", Ours("label_smoothing"), ToJson(*smoothing),
           "sigmoid smooths there");
  } else if (smoothing != nullptr) {
    t->LeaveOut("dpo_label_smoothing", "off");
  }
  const Node* sft = t->Take("pref_ftx");
  const double weight = NumberOf(sft).value_or(0);
  if (weight > 0) {
    losses.push_back("sft");
    t->Set("pref_ftx", Ours("loss_weights"), Json::array({1.0, weight}),
           "theirs is a mean over pairs, ours over tokens");
  } else if (sft != nullptr) {
    t->LeaveOut("pref_ftx", "off");
  }
  t->Set("pref_loss", Ours("loss"), losses);
}

// orpo and simpo, which are losses of stage dpo there.
void TranslateOwnMethod(Translation* t, const std::string& loss) {
  t->Set("pref_loss", "spec.method", loss);
  const Node* sft = t->Take("pref_ftx");
  const double weight = NumberOf(sft).value_or(0);
  if (loss == "orpo") {
    t->Differ("pref_loss", "the likelihood runs over prompt and completion, as in TRL");
    if (weight > 0) t->Set("pref_ftx", Ours("nll_weight"), 1 + weight, "beside ORPO's own 1");
  } else {
    t->Move("simpo_gamma", Ours("gamma"));
    if (weight > 0) t->Set("pref_ftx", Ours("nll_weight"), weight);
  }
  if (sft != nullptr && weight == 0) t->LeaveOut("pref_ftx", "off");
}

void RefuseIfOn(Translation* t, const char* key, const char* reason) {
  const Node* value = t->Take(key);
  if (value == nullptr) return;
  if (NumberOf(value).value_or(0) > 0) {
    t->Refuse(key, reason);
  } else {
    t->LeaveOut(key, "off");
  }
}

void TranslatePairs(Translation* t) {
  const std::string loss = TextOf(t->Take("pref_loss"));
  RefuseIfOn(t, "pref_bco_weight", "this loss has no counterpart");
  RefuseIfOn(t, "ld_alpha", "weights of tokens beyond the shorter side have no counterpart");
  if (loss == "orpo" || loss == "simpo") return TranslateOwnMethod(t, loss);
  if (loss == "kto_pair") {
    t->Refuse("pref_loss", "this loss has no counterpart");
    return;
  }
  TranslatePairLoss(t, loss.empty() ? "sigmoid" : loss);
}

// The adapter that it goes on from is switched off for its reference.
void TranslateReference(Translation* t) {
  if (t->Find("spec.lora.init_from") == nullptr) return;
  const Json method = *t->Find("spec.method");
  if (method != "dpo" && method != "kto") return;
  t->Preset(Ours("reference"), "base", "the reference is the model without its adapter");
}

}  // namespace

void TranslateLlamaFactoryPreference(Translation* t) {
  const Json stage = *t->Find("spec.method");
  if (stage != "dpo" && stage != "kto") return;
  SwitchDropoutOff(t);
  if (!t->Move("pref_beta", Ours("beta"))) {
    t->Preset(Ours("beta"), 0.1, "the default of pref_beta");
  }
  if (stage == "dpo") TranslatePairs(t);
  if (stage == "kto") {
    t->Move("kto_chosen_weight", Ours("desirable_weight"));
    t->Move("kto_rejected_weight", Ours("undesirable_weight"));
    RefuseIfOn(t, "pref_ftx", "a likelihood beside KTO has no counterpart");
  }
  TranslateReference(t);
}

}  // namespace coxswain::job_import
