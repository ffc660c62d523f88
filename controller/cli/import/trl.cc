#include <string>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/model.h"
#include "controller/cli/import/translation/schedule.h"
#include "controller/cli/import/translation/trainer.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

void TranslateKind(Translation* t) {
  const Node* peft = t->Take("use_peft");
  const bool adapts = peft != nullptr && IsOn(peft);
  if (peft != nullptr) t->Set("use_peft", "spec.adapter", adapts ? "lora" : "none");
  t->Preset("spec.adapter", "none", "the default of use_peft");
  for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    if (IsOn(value)) {
      SetQuantisedBase(t, key, key == std::string("load_in_8bit"));
    } else {
      t->LeaveOut(key, "off");
    }
  }
  const bool quantised = *t->Find("spec.adapter") == "qlora";
  const Node* type = t->Take("bnb_4bit_quant_type");
  const Node* nested = t->Take("use_bnb_nested_quant");
  if (!quantised) {
    for (const char* key : {"bnb_4bit_quant_type", "use_bnb_nested_quant"}) {
      if (t->Has(key)) t->LeaveOut(key, "nothing is quantised");
    }
    return;
  }
  if (type != nullptr) SetFormatOf4Bits(t, "bnb_4bit_quant_type", type->text);
  if (nested != nullptr) t->Set("use_bnb_nested_quant", "spec.quantization.double", IsOn(nested));
  t->Preset("spec.quantization.double", false, "the default of use_bnb_nested_quant");
}

void TranslateLora(Translation* t) {
  if (*t->Find("spec.adapter") == "none") {
    LeaveOutAdapter(
        t, {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_modules_to_save",
            "use_rslora", "use_dora", "lora_target_parameters"});
    return;
  }
  TranslateAdapter(t, {.rank = "lora_r",
                       .dropout = "lora_dropout",
                       .dora = "use_dora",
                       .rslora = "use_rslora",
                       .to_save = "lora_modules_to_save",
                       .default_rank = "16",
                       .default_alpha = "32",
                       .default_dropout = "0.05"});
  const Node* modules = t->Take("lora_target_modules");
  if (modules != nullptr && !IsOff(*modules)) {
    TranslateTargets(t, "lora_target_modules", TextsOf(modules));
  } else {
    PresetTargets(t);
  }
  TranslateStacks(t, "lora_target_parameters");
}

// The script loads float32 weights where nothing is said, so that training has a float32 copy.
void TranslateWeights(Translation* t) {
  const bool full = *t->Find("spec.adapter") == "none";
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    if (!full) {
      t->LeaveOut(key, "adapters are float32");
    } else if (value->text == "auto") {
      t->Set(key, "spec.precision.master_weights", "auto");
    } else if (value->text == "float16") {
      t->Refuse(key, "weights in float16 have no counterpart");
    } else {
      t->Set(key, "spec.precision.master_weights", value->text);
    }
  }
  if (full) t->Preset("spec.precision.master_weights", "float32", "the default of dtype");
}

void TranslateLoss(Translation* t) {
  const Node* loss = t->Take("loss_type");
  if (loss == nullptr) return;
  if (loss->text == "nll" || loss->text == "chunked_nll") {
    t->LeaveOut("loss_type", "the cross entropy");
  } else {
    t->Refuse("loss_type", "this loss has no counterpart");
  }
}

// Source: TRL f2cd577, sft_config.py, dpo_config.py, kto_config.py, reward_config.py.
double DefaultRate(const Translation& t) {
  if (*t.Find("spec.method") == "reward") return 1e-4;
  return TrainsPreferences(t) ? 1e-6 : 2e-5;
}

}  // namespace

void TranslateTrl(Translation* t, const std::string& base_dir) {
  TranslateModel(t, "model_name_or_path", "model_revision", base_dir);
  TranslateTrlPreference(t);
  const bool preferences = TrainsPreferences(*t);
  TranslateKind(t);
  TranslateLora(t);
  const Node* no_dropout = t->Take("disable_dropout");
  if (no_dropout == nullptr || IsOn(no_dropout)) SwitchDropoutOff(t);
  TranslateTrlData(t, base_dir);
  if (!preferences) TranslateLoss(t);
  TranslateLength(t, "num_train_epochs", 3);
  TranslateSchedule(t, "lr_scheduler_type", "linear", 0);
  t->Preset("spec.train.learning_rate", DefaultRate(*t), "the default of learning_rate");
  TranslateOptimizer(t, "optim");
  TranslateAuxLoss(t, "router_aux_loss_coef");
  const Node* half = t->top().config.Has("fp16") ? &t->top().config.Find("fp16")->value : nullptr;
  TranslatePrecision(t, !IsOn(half));
  TranslateWeights(t);
  TranslateSaving(t);
  TranslatePush(t, false);
  TranslateEvaluation(t, "");
  TranslateRun(t);
}

}  // namespace coxswain::job_import
