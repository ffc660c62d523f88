#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/model.h"
#include "controller/cli/import/translation/trainer.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;

// A list of sources, and the folder its paths begin at.
struct SourceList {
  std::string root;
  Node sources;
};

// Paths begin where the engine is started: looked for beside the file, above dataset_dir and here.
SourceList FindSources(const std::string& name, const std::string& base_dir,
                       const std::string& dataset_dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> roots = {fs::path(base_dir), fs::current_path(error)};
  if (!dataset_dir.empty()) {
    roots.insert(roots.begin(), fs::absolute(dataset_dir, error).lexically_normal().parent_path());
    roots.insert(roots.begin(), fs::path(dataset_dir));
  }
  for (const fs::path& root : roots) {
    const absl::StatusOr<std::string> text = ReadFile((root / name).string());
    if (text.ok()) return {root.string(), config::ParseYaml(*text).root};
  }
  return {};
}

void TranslateSource(Translation* t, const std::string& target, const Entry& entry,
                     const std::string& root) {
  ForeignConfig source(entry.value);
  const std::string path = TextOf(source.Take("path"));
  const bool local = TextOf(source.Take("source")) == "local";
  const std::string key = "train_dataset";
  if (local) {
    t->Set(key, target + "path", (std::filesystem::path(root) / path).lexically_normal().string());
  } else {
    SetSourcePath(t, Scope{t->top().config, "", "", target}, key, path, root);
    const std::string split = TextOf(source.Take("split"));
    t->Set(key, target + "split", split.empty() ? "train" : split);
  }
  const std::string converter = TextOf(source.Take("converter"));
  if (converter == "alpaca") {
    t->Set(key, target + "format", "alpaca");
    t->Set(key, target + "prompt_style", "chat");
    t->Differ(key, "an input follows its instruction on a line of its own, there without one");
  } else if (converter.empty() || converter == "sharegpt") {
    t->Set(key, target + "format", converter.empty() ? "chat" : "sharegpt");
    t->Preset("spec.train_on", "split", "each answer of a conversation is a record of its own");
  } else {
    t->Refuse(key, absl::StrCat("converter ", converter, " has no counterpart"));
  }
  if (const Node* weight = source.Take("weight")) t->Set(key, target + "weight", ToJson(*weight));
  if (source.Take("size") != nullptr) {
    t->Differ(key, absl::StrCat(entry.key, ": size draws records; all are read"));
  }
}

void TranslateSources(Translation* t, const std::string& base_dir, const std::string& dataset_dir) {
  const std::string name = TextOf(t->Take("train_dataset"));
  const bool is_list = name.size() > 5 && name.compare(name.size() - 5, 5, ".yaml") == 0;
  if (!is_list) {
    SetSourcePath(t, Scope{t->top().config, "", "", "spec.datasets[0]."}, "train_dataset", name,
                  base_dir);
    t->Preset("spec.datasets[0].format", "chat");
    return;
  }
  const SourceList list = FindSources(name, base_dir, dataset_dir);
  if (list.sources.kind != Node::Kind::kMap) {
    t->Refuse("train_dataset",
              "was not found beside the file; cox import takes --dataset-dir FOLDER");
    return;
  }
  for (size_t i = 0; i < list.sources.entries.size(); ++i) {
    TranslateSource(t, absl::StrCat("spec.datasets[", i, "]."), list.sources.entries[i], list.root);
  }
}

void TranslatePeft(Translation* t) {
  const Node* peft = t->Take("peft_config");
  if (peft == nullptr) {
    t->Preset("spec.adapter", "none", "the default of peft_config");
    return;
  }
  Scope scope{ForeignConfig(*peft), "peft_config.", "peft_config.", ""};
  const std::string name = TextOf(scope.config.Take("name"));
  if (name != "lora") {
    t->Note(scope, Outcome::kRefused, "name", "training some layers has no counterpart");
  }
  t->Set(scope, "name", "spec.adapter", "lora");
  for (const auto& [key, path] :
       {std::pair("r", "spec.lora.r"), std::pair("lora_alpha", "spec.lora.alpha"),
        std::pair("lora_dropout", "spec.lora.dropout")}) {
    if (const Node* value = scope.config.Take(key)) t->Set(scope, key, path, ToJson(*value));
  }
  t->Preset("spec.lora.r", 8, "the default of r");
  t->Preset("spec.lora.alpha", 16, "the default of lora_alpha");
  t->Preset("spec.lora.dropout", 0.05, "the default of lora_dropout");
  t->Preset("spec.lora.loraplus_lr_ratio", 1, "A and B learn at one rate");
  const std::vector<std::string> targets = TextsOf(scope.config.Take("target_modules"));
  if (targets.empty() || targets[0] == "all") {
    t->Preset("spec.lora.target_modules", "all-linear", "target_modules is all");
  } else {
    t->Set(scope, "target_modules", "spec.lora.target_modules", targets);
  }
  t->TranslateRest(&scope);
  if (const Node* quantised = t->Take("quant_config")) {
    ForeignConfig bits(*quantised);
    SetQuantisedBase(t, "quant_config", TextOf(bits.Take("quantization_bit")) == "8");
  }
}

// torch's AdamW at a constant rate, unless optim_config names another rule.
void TranslateRule(Translation* t) {
  t->Preset("spec.train.lr_scheduler", "constant", "the default of lr_scheduler_config");
  t->Preset("spec.train.warmup_steps", 0, "the default of lr_scheduler_config");
  if (const Node* rule = t->Take("optim_config")) {
    ForeignConfig keys(*rule);
    const std::string name = TextOf(keys.Take("name"));
    if (name == "muon") {
      t->Set("optim_config", "spec.train.optimizer", name);
      if (const Node* decay = keys.Take("wd")) {
        t->Set("optim_config", "spec.train.weight_decay", ToJson(*decay), "its wd");
      }
    } else {
      t->Refuse("optim_config", "this update rule has no counterpart");
    }
  }
  t->Preset("spec.train.optimizer", "adamw", "the default of optim_config");
  t->Preset("spec.train.weight_decay", 0.01, "that of torch's AdamW");
}

void TranslateBatching(Translation* t) {
  t->Preset("spec.train.gradient_accumulation_steps", 1);
  const std::string strategy = TextOf(t->Take("batching_strategy"));
  const bool dynamic = strategy.rfind("dynamic", 0) == 0;
  if (!strategy.empty()) {
    t->Set("batching_strategy", "spec.packing.strategy", dynamic ? "best_fit" : "none");
  }
  if (dynamic) t->Differ("batching_strategy", "bins are filled up to cutoff_len instead");
  t->Preset("spec.packing.strategy", "none", "the default of batching_strategy");
}

}  // namespace

void TranslateLlamaFactoryV1(Translation* t, const std::string& base_dir,
                             const std::string& dataset_dir) {
  TranslateModel(t, "model", "", base_dir);
  t->Preset("spec.method", "sft");
  TranslatePeft(t);
  TranslateSources(t, base_dir, dataset_dir);
  t->Preset("spec.chat_template", "tokenizer_default", "the default of custom_chat_template");
  t->Move("cutoff_len", "spec.sequence_len");
  t->Preset("spec.sequence_len", 2048, "the default of cutoff_len");
  t->Preset("spec.excess_length", "truncate");
  TranslateBatching(t);
  t->Move("learning_rate", "spec.train.learning_rate");
  t->Preset("spec.train.learning_rate", 1e-4, "the default of learning_rate");
  TranslateLength(t, "num_train_epochs", 3);
  TranslateRule(t);
  t->Move("micro_batch_size", "spec.train.micro_batch_size");
  t->Preset("spec.train.micro_batch_size", 1, "the default of micro_batch_size");
  TranslatePrecision(t, true);
  TranslateSaving(t);
  TranslateRun(t);
}

}  // namespace coxswain::job_import
