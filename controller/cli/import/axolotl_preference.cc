#include "controller/cli/import/axolotl_preference.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;
using Json = nlohmann::ordered_json;

constexpr char kSection[] = "spec.preference.";
constexpr char kProcessRewards[] = "process_reward_model";

// Source: Axolotl 067b021, core/builders/rl.py.
constexpr struct {
  std::string_view rl, method;
} kMethods[] = {
    {"dpo", "dpo"}, {"ipo", "dpo"}, {"orpo", "orpo"}, {"simpo", "simpo"}, {"kto", "kto"}};

// Types of prompt_strategies/dpo, kto and orpo whose records hold conversations of their own.
constexpr std::string_view kChatKinds[] = {"default", "argilla", "argilla_chat"};
// Those that make turns of texts, by the template that their name begins with.
constexpr std::string_view kTextKinds[] = {"default", "argilla",      "argilla_chat", "icr",
                                           "intel",   "prompt_pairs", "ultra"};

std::string PathOf(const char* key) { return absl::StrCat(kSection, key); }

// The first of the keys that is set decides.
void MoveFirst(Translation* t, const std::vector<const char*>& keys, const char* ours) {
  const char* winner = nullptr;
  for (const char* key : keys) {
    if (!t->Has(key)) continue;
    if (winner == nullptr) {
      t->Move(key, PathOf(ours));
      winner = key;
    } else {
      t->Take(key);
      t->LeaveOut(key, absl::StrCat(winner, " wins"));
    }
  }
}

void TranslateDpoLoss(Translation* t, bool ipo) {
  std::vector<std::string> losses = {"sigmoid"};
  if (ipo) {
    losses = {"ipo"};
    t->Set("rl", PathOf("loss"), losses);
  } else if (const Node* given = t->Take("dpo_loss_type")) {
    losses = TextsOf(given);
    t->Set("dpo_loss_type", PathOf("loss"), losses);
  }
  t->Move("dpo_loss_weights", PathOf("loss_weights"));
  const Node* smoothing = t->Take("dpo_label_smoothing");
  if (smoothing == nullptr) return;
  if (NumberOf(smoothing).value_or(0) == 0) {
    t->LeaveOut("dpo_label_smoothing", "off");
  } else if (std::find(losses.begin(), losses.end(), "robust") != losses.end()) {
    t->Set("dpo_label_smoothing", PathOf("label_smoothing"), ToJson(*smoothing));
  } else {
    t->LeaveOut("dpo_label_smoothing",
                "TRL ignores it with this loss; preference.loss: cdpo or robust reads it");
  }
}

void TranslateDpo(Translation* t, bool ipo) {
  TranslateDpoLoss(t, ipo);
  if (const Node* cached = t->Take("precompute_ref_log_probs")) {
    if (IsOn(cached)) {
      t->Set("precompute_ref_log_probs", PathOf("reference"), "cached");
    } else {
      t->LeaveOut("precompute_ref_log_probs", "off");
    }
  }
  const Node* weighting = t->Take("dpo_use_weighting");
  if (weighting == nullptr) return;
  if (IsOn(weighting)) {
    t->Refuse("dpo_use_weighting", "weights of pairs have no counterpart");
  } else {
    t->LeaveOut("dpo_use_weighting", "off");
  }
}

void LeaveOutInputs(Translation* t) {
  if (const Node* inputs = t->Take("train_on_inputs")) {
    t->LeaveOut("train_on_inputs", IsOn(inputs) ? "completions are compared, not prompts" : "off");
  }
}

// Keys that only the preference methods read.
void TranslateMethod(Translation* t, std::string_view rl, const std::string& method) {
  t->Set("rl", "spec.method", method);
  MoveFirst(t, {"rl_beta", "dpo_beta", "orpo_alpha"}, "beta");
  if (method == "dpo") TranslateDpo(t, rl == "ipo");
  if (method == "simpo") {
    t->Move("simpo_gamma", PathOf("gamma"));
    t->Move("cpo_alpha", PathOf("nll_weight"));
    t->Preset(PathOf("beta"), 0.1, "the default of rl_beta");
    t->Preset(PathOf("nll_weight"), 1.0, "the default of cpo_alpha");
  }
  if (method == "kto") {
    t->Move("kto_desirable_weight", PathOf("desirable_weight"));
    t->Move("kto_undesirable_weight", PathOf("undesirable_weight"));
  }
  LeaveOutInputs(t);
}

// One line says what is missing; what belongs to it does not.
void RefuseRewards(Translation* t, std::string_view rl) {
  t->Refuse("rl",
            absl::StrCat("reinforcement learning (", std::string(rl), ") has no counterpart yet"));
  for (const char* key : {"trl", "ebft", "vllm"}) {
    if (t->Take(key) != nullptr) t->LeaveOut(key, "of rl");
  }
}

// Source: Axolotl 067b021, core/builders/causal.py: a reward model has one label whatever
// num_labels says; prompt_strategies/bradley_terry cuts a side at sequence_len.
void TranslateRewardModel(Translation* t) {
  const Node* model = t->Take("reward_model");
  const bool rewards = model != nullptr && IsOn(model);
  if (rewards) {
    t->Set("reward_model", "spec.method", "reward");
    t->Preset("spec.excess_length", "truncate", "sides are cut at sequence_len");
    t->Move("center_rewards_coefficient", "spec.reward.center_coefficient");
    if (t->Take("num_labels") != nullptr) t->LeaveOut("num_labels", "a reward is one number");
    LeaveOutInputs(t);
  } else {
    if (model != nullptr) t->LeaveOut("reward_model", "off");
    if (t->Take("center_rewards_coefficient") != nullptr) {
      t->LeaveOut("center_rewards_coefficient", "of reward_model");
    }
  }
}

// One line says what is missing.
void RefuseProcessRewards(Translation* t) {
  const Node* model = t->Take(kProcessRewards);
  if (model == nullptr) return;
  if (!IsOn(model)) return t->LeaveOut(kProcessRewards, "off");
  t->Refuse(kProcessRewards, "scores of single steps have no counterpart");
  if (t->Take("num_labels") != nullptr) {
    t->LeaveOut("num_labels", absl::StrCat("of ", kProcessRewards));
  }
}

void SetNamed(Translation* t, const Scope& scope, std::string_view key, const char* ours,
              const std::string& value, std::string_view usual) {
  if (value == usual) {
    t->Note(scope, Outcome::kLeftOut, key, "as the format has it");
  } else {
    t->Set(scope, key, absl::StrCat(scope.target, ours), value);
  }
}

void TranslateMapping(Translation* t, Scope* scope) {
  const Node* mapping = scope->config.Take("message_property_mappings");
  if (mapping == nullptr) return;
  for (const Entry& entry : mapping->entries) {
    if (entry.key != "role" && entry.key != "content") continue;
    const std::string ours = absl::StrCat("message_", entry.key, "_key");
    SetNamed(t, *scope, "message_property_mappings", ours.c_str(), entry.value.text, entry.key);
  }
}

// Fields by name. A format of its own but the plain field is a prompt that we do not have.
void TranslateFields(Translation* t, Scope* scope, const Node& type) {
  for (const Entry& entry : type.entries) {
    if (entry.value.kind == Node::Kind::kNull) continue;
    const std::string& key = entry.key;
    const bool format = key.size() > 7 && key.compare(key.size() - 7, 7, "_format") == 0;
    if (key.rfind("field_", 0) == 0 && IsPlainName(key)) {
      t->Set(*scope, "type", absl::StrCat(scope->target, key), ToJson(entry.value));
    } else if (format &&
               entry.value.text == absl::StrCat("{", key.substr(0, key.size() - 7), "}")) {
      t->Note(*scope, Outcome::kLeftOut, "type", absl::StrCat(key, ": the field as it is"));
    } else {
      t->Note(*scope, Outcome::kRefused, "type",
              absl::StrCat(key, ": a prompt of one's own has no counterpart but a Jinja file"));
    }
  }
}

template <size_t N>
bool IsIn(const std::string& word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

void SetChatOfType(Translation* t, const Scope& scope) {
  t->Set(scope, "type", absl::StrCat(scope.target, "prompt_style"), "chat");
}

void SetTemplateOfType(Translation* t, const Scope& scope, const std::string& name) {
  const Json* before = t->Find("spec.chat_template");
  if (before != nullptr && *before != name) {
    t->Note(scope, Outcome::kRefused, "type", "the sources of a job have one chat_template");
  } else {
    t->Set(scope, "type", "spec.chat_template", name);
  }
  SetChatOfType(t, scope);
}

void TranslateNamedType(Translation* t, Scope* scope, const std::string& type) {
  if (type == "bradley_terry.chat_template") return SetChatOfType(t, *scope);
  if (type == "bradley_terry.llama3.icr") return SetTemplateOfType(t, *scope, "llama3");
  const size_t dot = type.find('.');
  const std::string strategy = type.substr(0, dot);
  const std::string kind = dot == std::string::npos ? "default" : type.substr(dot + 1);
  if (strategy == "chat_template" && IsIn(kind, kChatKinds)) return TranslateMapping(t, scope);
  if ((strategy == "chatml" || strategy == "llama3") && IsIn(kind, kTextKinds)) {
    return SetTemplateOfType(t, *scope, strategy);
  }
  if (strategy == "passthrough") return;
  t->Note(*scope, Outcome::kRefused, "type",
          "its prompt has no counterpart; chat_template, chatml and llama3 do");
}

}  // namespace

void TranslateAxolotlPreference(Translation* t) {
  TranslateRewardModel(t);
  RefuseProcessRewards(t);
  const std::string rl = TextOf(t->Take("rl"));
  if (rl.empty()) return;
  for (const auto& row : kMethods) {
    if (row.rl == rl) return TranslateMethod(t, rl, std::string(row.method));
  }
  RefuseRewards(t, rl);
}

void TranslatePreferenceType(Translation* t, Scope* scope) {
  const Node* type = scope->config.Take("type");
  const Json* method = t->Find("spec.method");
  if (method == nullptr) {
    if (type != nullptr) t->Note(*scope, Outcome::kLeftOut, "type", "of training by rewards");
    return;
  }
  const std::string format = *method == "kto" ? "unpaired_preference" : "preference";
  if (type == nullptr) {
    t->Preset(absl::StrCat(scope->target, "format"), format, "records as TRL reads them");
    return;
  }
  t->Set(*scope, "type", absl::StrCat(scope->target, "format"), format);
  if (type->kind == Node::Kind::kMap) return TranslateFields(t, scope, *type);
  TranslateNamedType(t, scope, type->text);
}

}  // namespace coxswain::job_import
