#include "controller/job_import/model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/name_pattern.h"
#include "controller/job_import/hub_name.h"
#include "controller/job_import/model_name.h"
#include "controller/job_import/target_pattern.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

Json Yaml(std::string_view text) { return ToJson(config::ParseYaml(std::string(text)).root); }

void MoveOr(Translation* t, std::string_view key, const std::string& path,
            std::string_view preset) {
  if (t->Move(key, path) || preset.empty()) return;
  t->Preset(path, Yaml(preset), absl::StrCat("the default of ", std::string(key)));
}

}  // namespace

void TranslateModel(Translation* t, std::string_view key, std::string_view revision_key,
                    const std::string& base_dir) {
  const std::string name = TextOf(t->Take(key));
  const std::string revision = TextOf(t->Take(revision_key));
  if (name.empty()) return;
  if (IsHubName(name, base_dir)) {
    t->Set(key, "spec.base_model.hub", name);
    if (!revision.empty()) t->Set(revision_key, "spec.base_model.revision", revision);
  } else {
    t->Set(key, "spec.base_model.path", LocalForm(name));
    if (!revision.empty()) t->LeaveOut(revision_key, "only names of the Hub have revisions");
  }
  std::error_code error;
  const auto config_json = std::filesystem::path(base_dir) / name / "config.json";
  if (std::filesystem::exists(config_json, error)) return;  // the planner reads it
  const std::string_view refusal = RefusalOfModel(name);
  if (!refusal.empty()) t->Refuse(key, refusal);
}

void TranslateAdapter(Translation* t, const AdapterKeys& keys) {
  MoveOr(t, keys.rank, "spec.lora.r", keys.default_rank);
  MoveOr(t, "lora_alpha", "spec.lora.alpha", keys.default_alpha);
  MoveOr(t, keys.dropout, "spec.lora.dropout", keys.default_dropout);
  MoveOr(t, "loraplus_lr_ratio", "spec.lora.loraplus_lr_ratio", "");
  t->Preset("spec.lora.loraplus_lr_ratio", 1, "A and B learn at one rate");
  for (const auto& [key, path] : {std::pair(keys.rslora, "spec.lora.use_rslora"),
                                  std::pair(keys.dora, "spec.lora.use_dora")}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    t->Set(key, path, IsOn(value));
  }
  const Node* to_save = t->Take(keys.to_save);
  if (to_save == nullptr) return;
  if (IsOff(*to_save)) {
    t->LeaveOut(keys.to_save, "off");
  } else {
    t->Set(keys.to_save, "spec.lora.modules_to_save", TextsOf(to_save));
  }
}

void SetQuantisedBase(Translation* t, std::string_view key, bool eight_bits) {
  t->Set(key, "spec.adapter", "qlora");
  if (eight_bits) t->Set(key, "spec.quantization.format", "int8");
}

void SetFormatOf4Bits(Translation* t, std::string_view key, std::string_view type) {
  if (type == "nf4") {
    t->Set(key, "spec.quantization.format", "nf4");
  } else {
    t->Refuse(key, "4 bits are nf4 here");
  }
}

namespace {

// As peers' files call the module or the parameter that routes.
bool IsRouter(const std::string& name) {
  constexpr std::string_view kNames[] = {
      "gate",        "router",        "mlp.gate",        "mlp.router",
      "gate.weight", "router.weight", "mlp.gate.weight", "mlp.router.weight"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void TrainRouter(Translation* t, std::string_view key) {
  t->Set(key, "spec.moe.router", "trained", "routers are trained in full, not by an adapter");
}

}  // namespace

void TranslateTargets(Translation* t, std::string_view key, const std::vector<std::string>& names) {
  Json list = Json::array();
  const Json* hub = t->Find("spec.base_model.hub");
  const std::string model = hub == nullptr ? "" : hub->get<std::string>();
  for (const std::string& name : names) {
    if (name == "all" || name == "all-linear" || name == "all_linear") {
      t->Set(key, "spec.lora.target_modules", "all-linear");
      return;
    }
    if (NamePattern::Is(name)) {
      const absl::StatusOr<std::vector<std::string>> chosen = TargetsOfPattern(name);
      if (chosen.ok()) {
        t->Set(key, "spec.lora.target_modules", *chosen, "what the pattern chooses");
      } else {
        t->Refuse(key, absl::StrCat("the pattern ", std::string(chosen.status().message())));
      }
      return;
    }
    const std::string last = name.substr(name.rfind('.') + 1);
    if (IsRouter(name)) {
      TrainRouter(t, key);
      continue;
    }
    if (LacksModule(model, last)) {
      t->LeaveOut(key,
                  absl::StrCat(last, ": this family has no such linear, and PEFT adapts none"));
      continue;
    }
    bool known = false;
    for (const Json& item : list) known |= item == last;
    if (!known) list.push_back(last);
  }
  t->Set(key, "spec.lora.target_modules", list);
}

void TranslateStacks(Translation* t, std::string_view key) {
  const config::Node* value = t->Take(key);
  if (value == nullptr) return;
  Json list = Json::array();
  for (const std::string& name : TextsOf(value)) {
    if (IsRouter(name)) {
      TrainRouter(t, key);
    } else {
      list.push_back(name);
    }
  }
  t->Set(key, "spec.lora.target_parameters", list);
}

void TranslateAuxLoss(Translation* t, std::string_view key) {
  if (!t->Move(key, "spec.moe.aux_loss.coef")) return;
  t->Preset("spec.moe.aux_loss.over", "micro_batch", "transformers pools a micro-batch");
}

void PresetTargets(Translation* t) {
  t->Preset("spec.lora.target_modules", Json::array({"q_proj", "v_proj"}),
            "what PEFT adapts in Llama, Mistral and Qwen where nothing is named");
}

void LeaveOutAdapter(Translation* t, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (t->Take(key) != nullptr) t->LeaveOut(key, "no adapter is trained");
  }
}

}  // namespace coxswain::job_import
