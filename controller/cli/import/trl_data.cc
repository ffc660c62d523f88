#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/schedule.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

bool Says(Translation* t, std::string_view key, bool wanted) {
  const Node* value = t->Take(key);
  return value != nullptr && IsOn(value) == wanted;
}

// dataset_name with the split to train on; with an eval_strategy also the one to evaluate on.
void TranslateNamed(Translation* t, const std::string& base_dir) {
  const Node* name = t->Take("dataset_name");
  if (name == nullptr) return;
  const Node* subset = t->Take("dataset_config");
  const auto add = [&](const std::string& list, std::string_view split_key,
                       const std::string& usual) {
    const Scope scope{t->top().config, "", "", absl::StrCat(list, "[0].")};
    const SourcePlace place = SetSourcePath(t, scope, "dataset_name", name->text, base_dir);
    if (subset != nullptr) SetSubset(t, scope, "dataset_config", subset->text, place);
    if (const Node* split = t->Take(split_key)) {
      SetSplit(t, scope, split_key, split->text);
    } else if (place == SourcePlace::kHub) {
      t->Preset(absl::StrCat(list, "[0].split"), usual,
                absl::StrCat("the default of ", std::string(split_key)));
    }
  };
  add("spec.datasets", "dataset_train_split", "train");
  const config::Entry* strategy = t->top().config.Find("eval_strategy");
  const bool evaluates = strategy != nullptr && !IsOff(strategy->value);
  if (evaluates && !t->Has("test_split_size")) {
    add("spec.test_datasets", "dataset_test_split", "test");
  } else if (t->Take("dataset_test_split") != nullptr) {
    t->LeaveOut("dataset_test_split", "nothing is evaluated without eval_strategy");
  }
}

void TranslateMixture(Translation* t, const std::string& base_dir) {
  const Node* list = t->Take("datasets");
  if (list == nullptr) return;
  for (size_t i = 0; i < list->items.size(); ++i) {
    Scope scope{ForeignConfig(list->items[i]), absl::StrCat("datasets[", i, "]."), "datasets[].",
                absl::StrCat("spec.datasets[", i, "].")};
    const SourcePlace place =
        SetSourcePath(t, scope, "path", TextOf(scope.config.Take("path")), base_dir);
    if (const Node* subset = scope.config.Take("name")) {
      SetSubset(t, scope, "name", subset->text, place);
    }
    if (const Node* folder = scope.config.Take("data_dir")) {
      SetDataDir(t, scope, "data_dir", folder->text, place);
    }
    if (const Node* files = scope.config.Take("data_files")) {
      t->Set(scope, "data_files", absl::StrCat(scope.target, "data_files"), TextsOf(files));
    }
    if (const Node* split = scope.config.Take("split")) SetSplit(t, scope, "split", split->text);
    t->TranslateRest(&scope);
  }
  for (const char* key : {"dataset_name", "dataset_config", "dataset_train_split"}) {
    if (t->Take(key) != nullptr) t->LeaveOut(key, "datasets wins");
  }
}

// Which tokens are targets hangs on what the records hold, which TRL sees and the import does not.
void TranslateTargets(Translation* t) {
  const Node* field = t->Take("dataset_text_field");
  const bool completion = Says(t, "completion_only_loss", true);
  const bool everything = Says(t, "completion_only_loss", false);
  const bool assistant = Says(t, "assistant_only_loss", true);
  std::string format = "auto";
  if (completion) format = "prompt_completion";
  if (assistant) format = "chat";
  if (field != nullptr && !completion && !assistant) format = "completion";
  const Json* sources = t->Find("spec.datasets");
  const size_t count = sources == nullptr ? 0 : sources->size();
  for (size_t i = 0; i < count; ++i) {
    const std::string source = absl::StrCat("spec.datasets[", i, "].");
    t->Preset(source + "format", format, "TRL tells a record's kind by its columns");
    if (field != nullptr && field->text != "text") {
      t->Set("dataset_text_field", source + "field_text", field->text);
    }
  }
  if (field != nullptr && field->text == "text") t->LeaveOut("dataset_text_field", "the default");
  const std::string path = "spec.train_on_inputs";
  if (completion) t->Set("completion_only_loss", path, false);
  if (assistant) t->Set("assistant_only_loss", path, false);
  if (everything && !assistant) t->Set("completion_only_loss", path, true);
  if (t->Has("assistant_only_loss") && !assistant) t->LeaveOut("assistant_only_loss", "off");
  t->Preset(path, true,
            "TRL's loss is over everything, but for records of prompt and completion: if yours "
            "are such, give false");
}

void TranslateTemplate(Translation* t) {
  const std::string path = "spec.chat_template";
  const Node* given = t->Take("chat_template_path");
  if (given == nullptr) {
    t->Preset(path, "tokenizer_default", "the default of chat_template_path");
    return;
  }
  const std::string& text = given->text;
  const bool file = text.size() > 6 && text.compare(text.size() - 6, 6, ".jinja") == 0;
  t->Set("chat_template_path", path,
         file ? LocalForm(text) : absl::StrCat(LocalForm(text), "/chat_template.jinja"),
         file ? "" : "of a tokenizer's folder; download it first if it is a hub name");
}

void TranslateBins(Translation* t) {
  bool sized = t->Move("max_length", "spec.sequence_len");
  if (const Node* older = t->Take("max_seq_length")) {
    if (!sized) t->Set("max_seq_length", "spec.sequence_len", ToJson(*older));
    if (sized) t->LeaveOut("max_seq_length", "max_length wins");
    sized = true;
  }
  const config::Entry* unlimited = t->top().config.Find("max_length");
  if (!sized && unlimited != nullptr) {
    t->Refuse("max_length", "records without a limit: give the length of a bin");
  }
  t->Preset("spec.sequence_len", 1024, "the default of max_length");
  const std::string strategy = TextOf(t->Take("packing_strategy"));
  const Node* packing = t->Take("packing");
  if (packing == nullptr || !IsOn(packing)) {
    if (packing != nullptr) t->Set("packing", "spec.packing.strategy", "none");
    if (!strategy.empty()) t->LeaveOut("packing_strategy", "packing is off");
    t->Preset("spec.packing.strategy", "none", "the default of packing");
  } else if (strategy == "wrapped") {
    t->Set("packing", "spec.packing.strategy", "best_fit");
    t->Set("packing_strategy", "spec.excess_length", "split");
    t->Differ("packing_strategy",
              "only documents longer than a bin are cut, and none sees another");
  } else {
    t->Set("packing", "spec.packing.strategy", "best_fit_decreasing");
    if (strategy == "bfd_split" || strategy == "bfd-requeue") {
      t->Set("packing_strategy", "spec.excess_length", "split");
    } else if (!strategy.empty()) {
      t->LeaveOut("packing_strategy", "best fit decreasing");
    }
  }
  const Node* cut = t->Take("truncation_mode");
  if (cut != nullptr && cut->text == "keep_end") {
    t->Refuse("truncation_mode", "documents are cut at their end");
  } else if (cut != nullptr) {
    t->LeaveOut("truncation_mode", "documents are cut at their end");
  }
  t->Preset("spec.excess_length", "truncate", "the default of truncation_mode");
}

}  // namespace

void TranslateTrlData(Translation* t, const std::string& base_dir) {
  if (t->Has("datasets")) {
    TranslateMixture(t, base_dir);
  } else {
    TranslateNamed(t, base_dir);
  }
  if (!TrainsPreferences(*t)) TranslateTargets(t);
  TranslateTemplate(t);
  TranslateBins(t);
  const Node* held = t->Take("test_split_size");
  if (held != nullptr && !IsOff(*held)) {
    t->Set("test_split_size", "spec.val_set_size", ToJson(*held));
  }
}

}  // namespace coxswain::job_import
