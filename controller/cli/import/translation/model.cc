#include "controller/cli/import/translation/model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/name_pattern.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/model_name.h"
#include "controller/cli/import/translation/target_pattern.h"

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

std::string ModelOf(const Translation& t) {
  for (const char* path : {"spec.base_model.hub", "spec.base_model.path"}) {
    if (const Json* name = t.Find(path)) return name->get<std::string>();
  }
  return "";
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
  std::vector<std::string> modules = TextsOf(to_save);
  const Json* method = t->Find("spec.method");
  const bool scores = method != nullptr && *method == "reward";
  const bool named = scores && std::erase(modules, "score") > 0;
  if (IsOff(*to_save)) {
    t->LeaveOut(keys.to_save, "off");
  } else if (named && modules.empty()) {
    t->LeaveOut(keys.to_save, "the score head trains in full");
  } else {
    t->Set(keys.to_save, "spec.lora.modules_to_save", modules);
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

// As files of peers call the module or the parameter that routes: `gate`, `mlp.router.weight`.
bool IsRouter(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  for (const std::string_view module : {"mlp.", "block_sparse_moe."}) {
    if (name.starts_with(module)) name.remove_prefix(module.size());
  }
  return name == "gate" || name == "router";
}

void TrainRouter(Translation* t, std::string_view key) {
  t->Set(key, "spec.moe.router", "trained", "routers are trained in full, not by an adapter");
}

// The stack in which Mixtral's linears of single experts lie; "" for other names.
std::string_view StackOfMixtral(const std::string& model, std::string_view name) {
  if (absl::AsciiStrToLower(model).find("mixtral") == std::string::npos) return "";
  if (name == "w1" || name == "w3") return "mlp.experts.gate_up_proj";
  return name == "w2" ? "mlp.experts.down_proj" : "";
}

// Whether the model was refused, so that what its modules are called is no question.
bool ModelIsRefused(const Translation& t) {
  const std::string key = t.OriginOf("spec.base_model.hub").empty()
                              ? t.OriginOf("spec.base_model.path")
                              : t.OriginOf("spec.base_model.hub");
  return std::any_of(t.report().begin(), t.report().end(), [&key](const ReportLine& line) {
    return line.outcome == Outcome::kRefused && line.key == key;
  });
}

// The module's own name; of a shared expert's linear with the expert's name, which others lack.
std::string EndOf(const std::string& name) {
  const size_t shared = name.rfind("shared_expert");
  if (shared != std::string::npos && (shared == 0 || name[shared - 1] == '.')) {
    return name.substr(shared);
  }
  return name.substr(name.rfind('.') + 1);
}

void AddOnce(Json* list, std::string_view name) {
  for (const Json& item : *list) {
    if (item == name) return;
  }
  list->push_back(std::string(name));
}

}  // namespace

void TranslateTargets(Translation* t, std::string_view key, const std::vector<std::string>& names) {
  if (ModelIsRefused(*t)) {
    t->LeaveOut(key, "its modules are those of a model to come");
    return;
  }
  Json list = Json::array();
  Json stacks = Json::array();
  const std::string model = ModelOf(*t);
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
    const std::string last = EndOf(name);
    if (IsRouter(name)) {
      TrainRouter(t, key);
      continue;
    }
    if (LacksModule(model, last)) {
      t->LeaveOut(key,
                  absl::StrCat(last, ": this family has no such linear, and PEFT adapts none"));
      continue;
    }
    const std::string_view stack = StackOfMixtral(model, last);
    AddOnce(stack.empty() ? &list : &stacks, stack.empty() ? last : stack);
  }
  t->Set(key, "spec.lora.target_modules", list);
  if (stacks.empty()) return;
  t->Set(key, "spec.lora.target_parameters", stacks,
         "w1, w2 and w3 are in these stacks, where w1 and w3 share A");
}

void TranslateStacks(Translation* t, std::string_view key) {
  const config::Node* value = t->Take(key);
  if (value == nullptr) return;
  const Json* written = t->Find("spec.lora.target_parameters");
  Json list = written == nullptr ? Json::array() : *written;
  for (const std::string& name : TextsOf(value)) {
    if (IsRouter(name)) {
      TrainRouter(t, key);
    } else {
      AddOnce(&list, name);
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
