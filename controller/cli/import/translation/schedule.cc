#include "controller/cli/import/translation/schedule.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/foreign_keys/foreign_value.h"
#include "controller/cli/import/translation/trainer.h"

namespace coxswain::job_import {

bool TrainsPreferences(const Translation& t) {
  const nlohmann::ordered_json* method = t.Find("spec.method");
  return method != nullptr && *method != "sft" && *method != "pretrain";
}

void SwitchDropoutOff(Translation* t) {
  const std::string path = "spec.lora.dropout";
  const nlohmann::ordered_json* dropout = t->Find(path);
  const bool drops = dropout != nullptr && dropout->is_number() && *dropout != 0;
  if (!TrainsPreferences(*t) || !drops) return;
  const std::string origin = t->OriginOf(path);
  t->Set(origin.empty() ? "disable_dropout" : origin, path, 0.0,
         "disable_dropout is on in trainers of preferences");
}

namespace {

using config::Entry;
using config::Node;
using Json = nlohmann::ordered_json;

constexpr const char* kScheduler = "spec.train.lr_scheduler";

// transformers' schedules that have the same name here; others are words of foreign_value.cc.
constexpr std::string_view kSameSchedules[] = {
    "linear",       "cosine",     "constant",           "cosine_with_restarts",
    "inverse_sqrt", "polynomial", "warmup_stable_decay"};

// min_lr, min_lr_rate and lr_end are the end of the decay; the rest keeps its name.
void TranslateKwargs(Translation* t, const std::string& scheduler) {
  const Node* kwargs = t->Take("lr_scheduler_kwargs");
  if (kwargs == nullptr) return;
  if (IsOff(*kwargs)) {
    t->LeaveOut("lr_scheduler_kwargs", "not set");
    return;
  }
  const Json* rate = t->Find("spec.train.learning_rate");
  const double peak = rate != nullptr && rate->is_number() ? rate->get<double>() : 0;
  for (const Entry& entry : kwargs->entries) {
    const std::optional<double> number = NumberOf(&entry.value);
    const std::string reason = absl::StrCat("its ", entry.key);
    if (entry.key == "min_lr_rate") {
      t->Set("lr_scheduler_kwargs", "spec.train.min_lr_ratio", ToJson(entry.value), reason);
    } else if ((entry.key == "min_lr" || entry.key == "lr_end") && number.has_value() && peak > 0) {
      t->Set("lr_scheduler_kwargs", "spec.train.min_lr_ratio", *number / peak,
             absl::StrCat(reason, " over learning_rate"));
    } else if (entry.key == "num_cycles" && scheduler == "cosine") {
      t->Refuse("lr_scheduler_kwargs", "a cosine goes down once: num_cycles has no counterpart");
    } else if (!IsPlainName(entry.key)) {
      t->Refuse("lr_scheduler_kwargs", absl::StrCat(entry.key, " is no name of a key"));
    } else {
      t->Set("lr_scheduler_kwargs", absl::StrCat("spec.train.lr_scheduler_kwargs.", entry.key),
             ToJson(entry.value));
    }
  }
}

bool SetWarmupSteps(Translation* t, const Node& steps) {
  const double value = NumberOf(&steps).value_or(0);
  if (value > 0 && value < 1) {
    t->Set("warmup_steps", "spec.train.warmup_ratio", value, "below 1 it is a ratio");
  } else {
    t->Set("warmup_steps", "spec.train.warmup_steps", ToJson(steps));
  }
  if (t->Take("warmup_ratio") != nullptr) t->LeaveOut("warmup_ratio", "warmup_steps wins");
  return true;
}

void TranslateWarmup(Translation* t, double default_ratio) {
  const Node* steps = t->Take("warmup_steps");
  // Axolotl takes a 0 as said; transformers takes it as nothing said.
  const bool zero_counts = t->tool() == foreign_keys::Tool::kAxolotl || !t->Has("warmup_ratio");
  if (steps != nullptr && (zero_counts || NumberOf(steps).value_or(0) > 0)) {
    SetWarmupSteps(t, *steps);
    return;
  }
  if (steps != nullptr) t->LeaveOut("warmup_steps", "0: warmup_ratio says it");
  if (t->Move("warmup_ratio", "spec.train.warmup_ratio")) return;
  if (default_ratio > 0) {
    t->Preset("spec.train.warmup_ratio", default_ratio,
              "Axolotl takes at most 100 steps: set warmup_steps where that is less");
  } else {
    t->Preset("spec.train.warmup_steps", 0, "no warm-up");
  }
}

}  // namespace

void TranslateSchedule(Translation* t, std::string_view key, std::string_view default_scheduler,
                       double default_warmup_ratio) {
  t->Move("learning_rate", "spec.train.learning_rate");
  const std::string theirs = TextOf(t->Take(key));
  std::string ours;
  if (std::find(std::begin(kSameSchedules), std::end(kSameSchedules), theirs) !=
      std::end(kSameSchedules)) {
    ours = theirs;
  } else if (const auto* value = foreign_keys::FindForeignValue(kScheduler, theirs)) {
    ours = std::string(value->ours);
  }
  if (!ours.empty()) {
    t->Set(key, kScheduler, ours);
  } else if (!theirs.empty()) {
    t->Refuse(key, "this schedule has no counterpart");
  } else {
    ours = std::string(default_scheduler);
    t->Preset(kScheduler, ours, absl::StrCat("the default of ", std::string(key)));
  }
  TranslateKwargs(t, ours);
  if (theirs != "constant") {
    TranslateWarmup(t, default_warmup_ratio);
    return;
  }
  for (const char* warmup : {"warmup_steps", "warmup_ratio"}) {
    if (t->Take(warmup) != nullptr) t->LeaveOut(warmup, "lr_scheduler constant has no warm-up");
  }
  t->Preset("spec.train.warmup_steps", 0, "lr_scheduler constant has no warm-up");
}

}  // namespace coxswain::job_import
