#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/model.h"
#include "controller/cli/import/translation/trainer.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

void TranslateMethod(Translation* t) {
  const std::string stage = TextOf(t->Take("stage"));
  if (stage == "pt" || stage == "sft") {
    t->Set("stage", "spec.method", stage == "pt" ? "pretrain" : "sft");
  } else if (stage == "dpo" || stage == "kto") {
    t->Set("stage", "spec.method", stage);
  } else if (stage == "rm") {
    t->Set("stage", "spec.method", "reward");
    t->Differ("stage", "the score head is a linear layer without a bias, which theirs has");
  } else if (!stage.empty()) {
    t->Refuse("stage", "reinforcement learning has no counterpart yet");
  }
  t->Preset("spec.method", "sft", "the default of stage");
}

void TranslateKind(Translation* t) {
  const std::string kind = TextOf(t->Take("finetuning_type"));
  if (kind == "full" || kind == "lora") {
    t->Set("finetuning_type", "spec.adapter", kind == "full" ? "none" : "lora");
  } else if (!kind.empty()) {
    t->Refuse("finetuning_type", "training some layers, or by rotations, has no counterpart");
  }
  t->Preset("spec.adapter", "lora", "the default of finetuning_type");
  const Node* bits = t->Take("quantization_bit");
  const Node* method = t->Take("quantization_method");
  const Node* type = t->Take("quantization_type");
  const Node* twice = t->Take("double_quantization");
  if (bits == nullptr || IsOff(*bits)) {
    for (const char* key : {"quantization_method", "quantization_type", "double_quantization"}) {
      if (t->Has(key)) t->LeaveOut(key, "nothing is quantised");
    }
    return;
  }
  SetQuantisedBase(t, "quantization_bit", bits->text == "8");
  if (method != nullptr && method->text != "bnb" && method->text != "bitsandbytes") {
    t->Refuse("quantization_method", "another way to quantise has no counterpart");
  } else if (method != nullptr) {
    t->Set("quantization_method", "spec.adapter", "qlora");
  }
  if (type != nullptr) SetFormatOf4Bits(t, "quantization_type", type->text);
  if (twice != nullptr) t->Set("double_quantization", "spec.quantization.double", IsOn(twice));
}

std::vector<std::string> SplitNames(const Node* node) {
  std::vector<std::string> names;
  for (const std::string& text : TextsOf(node)) {
    for (const auto& part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
      names.emplace_back(absl::StripAsciiWhitespace(part));
    }
  }
  return names;
}

void TranslateLora(Translation* t) {
  if (*t->Find("spec.adapter") == "none") {
    LeaveOutAdapter(t,
                    {"lora_rank", "lora_alpha", "lora_dropout", "lora_target", "additional_target",
                     "loraplus_lr_ratio", "use_dora", "use_rslora", "adapter_name_or_path"});
    return;
  }
  const bool has_alpha = t->Has("lora_alpha");
  TranslateAdapter(t, {.rank = "lora_rank",
                       .dropout = "lora_dropout",
                       .dora = "use_dora",
                       .rslora = "use_rslora",
                       .to_save = "",
                       .default_rank = "8",
                       .default_alpha = "",
                       .default_dropout = "0.0"});
  const Json& rank = *t->Find("spec.lora.r");
  if (!has_alpha && rank.is_number()) {
    t->Preset("spec.lora.alpha", 2 * rank.get<int64_t>(), "lora_alpha is twice the rank");
  }
  if (const Node* extra = t->Take("additional_target")) {
    t->Set("additional_target", "spec.lora.modules_to_save", SplitNames(extra));
  }
  if (const Node* from = t->Take("adapter_name_or_path")) {
    t->Set("adapter_name_or_path", "spec.lora.init_from", LocalForm(TextOf(from)));
  }
  if (const Node* targets = t->Take("lora_target")) {
    TranslateTargets(t, "lora_target", SplitNames(targets));
  } else {
    t->Preset("spec.lora.target_modules", "all-linear", "the default of lora_target");
  }
}

void TranslateAddedTokens(Translation* t) {
  Json tokens = Json::array();
  for (const char* key : {"add_special_tokens", "add_tokens"}) {
    const Node* added = t->Take(key);
    if (added == nullptr) continue;
    for (const std::string& token : SplitNames(added)) tokens.push_back(token);
    t->Set(key, "spec.base_model.added_tokens", tokens);
  }
}

// Schedules of the update rule that a switch names.
void TranslateMuon(Translation* t) {
  const Node* muon = t->Take("use_muon");
  if (muon == nullptr) return;
  if (IsOn(muon)) {
    t->Set("use_muon", "spec.train.optimizer", "muon");
  } else {
    t->LeaveOut("use_muon", "off");
  }
}

void TranslatePureBf16(Translation* t) {
  const Node* pure = t->Take("pure_bf16");
  if (pure == nullptr) return;
  if (!IsOn(pure)) {
    t->LeaveOut("pure_bf16", "off");
    return;
  }
  t->Set("pure_bf16", "spec.precision.compute", "bfloat16");
  if (*t->Find("spec.adapter") == "none") {
    t->Set("pure_bf16", "spec.precision.master_weights", "bfloat16",
           "weights without a float32 copy");
  }
}

}  // namespace

void TranslateLlamaFactory(Translation* t, const std::string& base_dir,
                           const std::string& dataset_dir) {
  if (t->Has("train_dataset")) {
    TranslateLlamaFactoryV1(t, base_dir, dataset_dir);
    return;
  }
  TranslateModel(t, "model_name_or_path", "model_revision", base_dir);
  if (const Node* scratch = t->Take("train_from_scratch")) {
    t->Set("train_from_scratch", "spec.base_model.init", IsOn(scratch) ? "random" : "pretrained");
  }
  TranslateMethod(t);
  TranslateKind(t);
  TranslateLora(t);
  TranslateLlamaFactoryPreference(t);
  TranslateLlamaFactoryData(t, base_dir, dataset_dir);
  TranslateLength(t, "num_train_epochs", 3);
  TranslateSchedule(t, "lr_scheduler_type", "linear", 0);
  t->Preset("spec.train.learning_rate", 5e-5, "the default of learning_rate");
  TranslateAddedTokens(t);
  TranslateMuon(t);
  TranslateOptimizer(t, "optim");
  TranslateAuxLoss(t, "moe_aux_loss_coef");
  TranslatePureBf16(t);
  TranslatePrecision(t, false);
  TranslateSaving(t);
  TranslatePush(t, false);
  TranslateEvaluation(t, "early_stopping_steps");
  TranslateRun(t);
}

}  // namespace coxswain::job_import
