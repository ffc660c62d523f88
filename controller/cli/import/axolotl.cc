#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/axolotl_preference.h"
#include "controller/cli/import/config_overrides.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/model.h"
#include "controller/cli/import/translation/schedule.h"
#include "controller/cli/import/translation/trainer.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;
using Json = nlohmann::ordered_json;

// Plugins that bring kernels, trackers or ways to share the work.
constexpr std::string_view kHarmlessPlugins[] = {
    "liger", "cut_cross_entropy", "swanlab", "kernels", "expert_parallel", "lm_eval", "nemo_gym"};

void TranslatePlugins(Translation* t) {
  for (const std::string& plugin : TextsOf(t->Take("plugins"))) {
    const bool harmless = std::any_of(
        std::begin(kHarmlessPlugins), std::end(kHarmlessPlugins), [&plugin](std::string_view name) {
          return plugin.find(absl::StrCat(".", std::string(name), ".")) != std::string::npos;
        });
    if (harmless) {
      t->LeaveOut("plugins", absl::StrCat(plugin, ": changes nothing that is trained"));
    } else {
      t->Refuse("plugins", absl::StrCat(plugin, " has no counterpart"));
    }
  }
}

void TranslateAdapterKind(Translation* t) {
  const std::string adapter = TextOf(t->Take("adapter"));
  if (adapter == "lora" || adapter == "qlora") {
    t->Set("adapter", "spec.adapter", adapter);
  } else if (adapter.empty() || adapter == "none") {
    t->Preset("spec.adapter", "none", "the default of adapter");
  } else {
    t->Refuse("adapter", "this kind of adapter has no counterpart");
  }
  for (const char* key : {"load_in_4bit", "load_in_8bit", "gptq"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    if (!IsOn(value)) {
      t->LeaveOut(key, "off");
    } else {
      SetQuantisedBase(t, key, key == std::string("load_in_8bit"));
    }
  }
}

void TranslateLora(Translation* t) {
  const Json* adapter = t->Find("spec.adapter");
  if (adapter != nullptr && *adapter == "none") {
    LeaveOutAdapter(t, {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules",
                        "lora_target_linear", "lora_modules_to_save", "peft_use_dora",
                        "peft_use_rslora", "loraplus_lr_ratio", "lora_model_dir"});
    return;
  }
  TranslateAdapter(t, {.rank = "lora_r",
                       .dropout = "lora_dropout",
                       .dora = "peft_use_dora",
                       .rslora = "peft_use_rslora",
                       .to_save = "lora_modules_to_save",
                       .default_rank = "",
                       .default_alpha = "",
                       .default_dropout = "0.0"});
  for (const char* key : {"lora_r", "lora_alpha"}) {
    if (!t->Has(key)) t->Refuse(key, "an adapter needs it, and Axolotl has no default");
  }
  if (const Node* from = t->Take("lora_model_dir")) {
    if (!TextOf(from).empty()) t->Move("lora_model_dir", "spec.lora.init_from");
  }
  const Node* linear = t->Take("lora_target_linear");
  const Node* modules = t->Take("lora_target_modules");
  if (linear != nullptr && IsOn(linear)) {
    t->Set("lora_target_linear", "spec.lora.target_modules", "all-linear");
    if (modules != nullptr) t->LeaveOut("lora_target_modules", "part of lora_target_linear");
    return;
  }
  if (linear != nullptr) t->LeaveOut("lora_target_linear", "off");
  if (modules != nullptr && !IsOff(*modules)) {
    TranslateTargets(t, "lora_target_modules", TextsOf(modules));
  } else if (t->Has("lora_target_parameters")) {
    t->Preset("spec.lora.target_modules", nlohmann::ordered_json::array(),
              "none beside lora_target_parameters");
  } else {
    PresetTargets(t);
  }
  TranslateStacks(t, "lora_target_parameters");
}

// batch_size is that of a process: micro_batch_size x gradient_accumulation_steps.
void TranslateBatch(Translation* t) {
  const Node* micro = t->Take("micro_batch_size");
  const double bins = NumberOf(micro).value_or(1);
  if (micro != nullptr) t->Set("micro_batch_size", "spec.train.micro_batch_size", ToJson(*micro));
  const Node* total = t->Take("batch_size");
  if (t->Move("gradient_accumulation_steps", "spec.train.gradient_accumulation_steps")) {
    if (total != nullptr) t->LeaveOut("batch_size", "gradient_accumulation_steps wins");
  } else if (total != nullptr && bins > 0) {
    const int64_t steps = static_cast<int64_t>(NumberOf(total).value_or(bins) / bins);
    t->Set("batch_size", "spec.train.gradient_accumulation_steps", std::max<int64_t>(1, steps),
           "batch_size / micro_batch_size");
  }
  double ranks = 1;
  for (const char* key : {"dp_shard_size", "dp_replicate_size"}) {
    if (t->Has(key)) ranks *= std::max(1.0, NumberOf(t->Take(key)).value_or(1));
  }
  for (const char* key : {"dp_shard_size", "dp_replicate_size"}) {
    if (t->Has(key)) t->Set(key, "spec.resources.workers", static_cast<int64_t>(ranks));
  }
  if (const Node* ray = t->Take("ray_num_workers")) {
    t->Set("ray_num_workers", "spec.resources.workers", ToJson(*ray));
  }
  t->Preset("spec.resources.workers", 1,
            "give as many as it ran on: each adds its micro-batches to a step");
}

// Padding is trained nowhere; a model's other special tokens are in its own tokenizer.
void TranslateSpecialTokens(Translation* t) {
  if (const Node* added = t->Take("tokens")) {
    if (IsOff(*added)) {
      t->LeaveOut("tokens", "none");
    } else {
      t->Set("tokens", "spec.base_model.added_tokens", TextsOf(added));
    }
  }
  const Node* tokens = t->Take("special_tokens");
  if (tokens == nullptr) return;
  const auto matters = [](const Entry& entry) {
    return entry.key != "pad_token" && entry.value.kind != Node::Kind::kNull;
  };
  if (std::any_of(tokens->entries.begin(), tokens->entries.end(), matters)) {
    t->Differ("special_tokens",
              "the tokens that begin and end a text are those of the model's own tokenizer files");
  } else {
    t->LeaveOut("special_tokens", "padding is not trained");
  }
}

}  // namespace

void TranslateAxolotl(Translation* t, const std::string& base_dir) {
  TranslateAxolotlPreference(t);
  TranslateModel(t, "base_model", "revision_of_model", base_dir);
  TranslateConfigOverrides(t, base_dir);
  if (const Node* fresh = t->Take("reinit_weights")) {
    t->Set("reinit_weights", "spec.base_model.init", IsOn(fresh) ? "random" : "pretrained");
  }
  TranslateAdapterKind(t);
  TranslateLora(t);
  SwitchDropoutOff(t);
  TranslateAxolotlData(t, base_dir);
  TranslateSpecialTokens(t);
  TranslatePlugins(t);
  TranslateBatch(t);
  TranslateLength(t, "num_epochs", 1);
  TranslateSchedule(t, "lr_scheduler", "cosine", 0.03);
  if (const Node* floor = t->Take("cosine_min_lr_ratio")) {
    t->Set("cosine_min_lr_ratio", "spec.train.min_lr_ratio", ToJson(*floor));
  }
  if (!t->Has("learning_rate")) t->Refuse("learning_rate", "Axolotl has no default");
  TranslateOptimizer(t, "optimizer");
  TranslatePrecision(t, false);
  TranslateSaving(t);
  TranslatePush(t, true);
  TranslateEvaluation(t, "early_stopping_patience");
  if (NumberOf(t->Take("logging_steps")).value_or(0) >= 1) {
    t->Move("logging_steps", "spec.logging.logging_steps");
  }
  t->TranslateRest(&t->top());
}

}  // namespace coxswain::job_import
