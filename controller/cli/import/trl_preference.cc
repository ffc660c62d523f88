#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/command_line.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/schedule.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Words = std::vector<std::string>;

constexpr char kOurSection[] = "spec.preference.";

std::string OursOf(const char* key) { return absl::StrCat(kOurSection, key); }

bool HasAny(const Translation& t, const std::vector<const char*>& keys) {
  return std::any_of(keys.begin(), keys.end(), [&t](const char* key) { return t.Has(key); });
}

// The script that a command names, else the one whose config has such keys.
// Source: TRL f2cd577, dpo_config.py, kto_config.py, reward_config.py, experimental/cpo and
// experimental/orpo.
std::string ScriptOf(Translation* t, const Words& losses) {
  const std::string named = TextOf(t->Take(kScriptKey));
  if (!named.empty()) return named;
  const std::string loss = losses.empty() ? "" : losses.front();
  if (HasAny(*t, {"desirable_weight", "undesirable_weight"}) || loss == "kto" ||
      loss == "apo_zero_unpaired") {
    return "kto";
  }
  if (t->Has("center_rewards_coefficient")) return "reward";
  if (HasAny(*t, {"cpo_alpha", "simpo_gamma"}) || loss == "simpo" || loss == "alphapo") {
    return "cpo";
  }
  const bool reads_nll = loss.empty() || loss == "nll" || loss == "chunked_nll" || loss == "dft";
  if (HasAny(*t, {"beta", "loss_weights", "precompute_ref_log_probs"}) || !reads_nll) return "dpo";
  return "sft";
}

void RefuseUnless(Translation* t, const char* key, std::string_view usual, const char* reason) {
  const Node* value = t->Take(key);
  if (value == nullptr) return;
  if (value->text == usual || IsOff(*value)) {
    t->LeaveOut(key, "off");
  } else {
    t->Refuse(key, reason);
  }
}

void TranslateDpoKeys(Translation* t, const Words& losses) {
  t->Move("loss_weights", OursOf("loss_weights"));
  const Node* smoothing = t->Take("label_smoothing");
  const bool robust = std::find(losses.begin(), losses.end(), "robust") != losses.end();
  if (smoothing != nullptr && robust) {
    t->Set("label_smoothing", OursOf("label_smoothing"), ToJson(*smoothing));
  } else if (smoothing != nullptr) {
    t->LeaveOut("label_smoothing",
                "TRL ignores it with this loss; preference.loss: cdpo or robust reads it");
  }
  RefuseUnless(t, "use_weighting", "false", "weights of pairs have no counterpart");
  RefuseUnless(t, "ld_alpha", "1.0",
               "weights of tokens beyond the shorter side have no counterpart");
  RefuseUnless(t, "f_divergence_type", "reverse_kl", "this divergence has no counterpart");
}

void TranslateReferenceKeys(Translation* t) {
  RefuseUnless(t, "sync_ref_model", "false", "a reference that follows has no counterpart");
  const Node* cached = t->Take("precompute_ref_log_probs");
  if (cached == nullptr) return;
  if (IsOn(cached)) {
    t->Set("precompute_ref_log_probs", OursOf("reference"), "cached");
  } else {
    t->LeaveOut("precompute_ref_log_probs", "off");
  }
}

// Also its loss simpo, which is a method here.
void TranslateCpo(Translation* t, const Words& losses) {
  const bool simpo = !losses.empty() && losses.front() == "simpo";
  if (simpo) t->Set("loss_type", "spec.method", "simpo");
  if (!losses.empty() && !simpo) t->Set("loss_type", OursOf("loss"), losses);
  t->Move("label_smoothing", OursOf("label_smoothing"));
  t->Move("cpo_alpha", OursOf("nll_weight"));
  RefuseUnless(t, "alpha", "0.0", "AlphaPO has no counterpart");
  if (!simpo) {
    if (t->Take("simpo_gamma") != nullptr) t->LeaveOut("simpo_gamma", "of loss_type: simpo");
    return;
  }
  t->Move("simpo_gamma", OursOf("gamma"));
  t->Preset(OursOf("beta"), 0.1, "the default of beta");
  t->Preset(OursOf("nll_weight"), 1.0, "the default of cpo_alpha");
}

// Source: TRL f2cd577, reward_trainer.py, _prepare_dataset.
void TranslateReward(Translation* t) {
  t->Move("center_rewards_coefficient", "spec.reward.center_coefficient");
  t->Preset("spec.excess_length", "drop", "pairs with a side above max_length are left out");
}

}  // namespace

void TranslateTrlPreference(Translation* t) {
  const Words losses = TextsOf(t->Peek("loss_type"));
  const std::string script = ScriptOf(t, losses);
  t->Preset("spec.method", script, "the script, or its keys");
  if (script == "sft") return;
  if (script == "reward") return TranslateReward(t);
  t->Take("loss_type");
  t->Move("beta", OursOf("beta"));
  if (script == "cpo") return TranslateCpo(t, losses);
  if (!losses.empty() && script != "orpo") t->Set("loss_type", OursOf("loss"), losses);
  if (script == "dpo") TranslateDpoKeys(t, losses);
  if (script == "dpo" || script == "kto") TranslateReferenceKeys(t);
  if (script == "kto") {
    t->Move("desirable_weight", OursOf("desirable_weight"));
    t->Move("undesirable_weight", OursOf("undesirable_weight"));
  }
}

}  // namespace coxswain::job_import
