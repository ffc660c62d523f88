#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/files/read_file.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/schedule.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

constexpr const char* kInfoFile = "dataset_info.json";

// Their templates that ours of the same name equal.
constexpr std::string_view kSameTemplates[] = {"chatml", "llama3", "mistral", "gemma"};

struct DatasetInfo {
  std::string folder;  // absolute; of the files
  Json entries;
};

std::vector<std::string> Names(const Node* node) {
  std::vector<std::string> names;
  for (const std::string& text : TextsOf(node)) {
    for (const auto& part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
      names.emplace_back(absl::StripAsciiWhitespace(part));
    }
  }
  return names;
}

// dataset_dir of the command, of the file (below its folder), the file's folder, and data below it
// or below the current folder, where LLaMA-Factory looks.
DatasetInfo FindInfo(const std::string& given, const std::string& named,
                     const std::string& base_dir) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (!given.empty()) {
    folders = {fs::path(given)};
  } else {
    if (!named.empty()) folders = {fs::path(base_dir) / named, fs::path(named)};
    folders.insert(folders.end(), {fs::path(base_dir), fs::path(base_dir) / "data", "data"});
  }
  for (const fs::path& folder : folders) {
    const absl::StatusOr<std::string> text = ReadFile((folder / kInfoFile).string());
    if (!text.ok()) continue;
    std::error_code error;
    return {fs::absolute(folder, error).lexically_normal().string(),
            Json::parse(*text, nullptr, /*allow_exceptions=*/false)};
  }
  return {};
}

std::string TextAt(const Json& map, const std::string& key, const std::string& usual) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : usual;
}

// One name of a list of theirs on its way to one source of ours.
struct Source {
  Translation* t;
  std::string_view key;  // dataset or eval_dataset
  std::string target;    // "spec.datasets[0]."
  const Json& entry;     // of dataset_info.json
  bool pretrain;
  bool preferences;  // the job trains on them

  void Set(const std::string& name, const Json& value, std::string_view reason = {}) const {
    t->Set(key, target + name, value, reason);
  }
  // A column where it is not what the format has anyway.
  void SetColumn(const Json& columns, const std::string& theirs, const std::string& ours,
                 const std::string& usual) const {
    const std::string column = TextAt(columns, theirs, "");
    if (!column.empty() && column != usual) Set(ours, column);
  }
};

void SetPlace(const Source& s, const std::string& folder, const std::string& base_dir) {
  const std::string file = TextAt(s.entry, "file_name", "");
  const std::string hub = TextAt(s.entry, "hf_hub_url", "");
  const Scope scope{s.t->top().config, "", "", s.target};
  SourcePlace place = SourcePlace::kLocal;
  if (!hub.empty()) {
    place = SetSourcePath(s.t, scope, s.key, hub, base_dir);
  } else if (!file.empty()) {
    s.Set("path", (std::filesystem::path(folder) / file).lexically_normal().string());
  } else {
    s.t->Refuse(s.key, "a source of a script or a cloud has no counterpart; download it");
  }
  const std::string subset = TextAt(s.entry, "subset", "");
  if (!subset.empty()) SetSubset(s.t, scope, s.key, subset, place);
  const std::string below = TextAt(s.entry, "folder", "");
  if (!below.empty()) SetDataDir(s.t, scope, s.key, below, place);
  const std::string split = TextAt(s.entry, "split", "train");
  if (!hub.empty() || s.entry.contains("split")) s.Set("split", split);
}

void SetAlpaca(const Source& s, const Json& columns) {
  if (s.pretrain) {
    s.Set("format", "completion");
    s.SetColumn(columns, "prompt", "field_text", "text");
    if (TextAt(columns, "prompt", "").empty()) s.Set("field_text", "instruction");
    return;
  }
  s.Set("format", "alpaca");
  s.Set("prompt_style", "chat", "an instruction is a user turn");
  s.SetColumn(columns, "prompt", "field_instruction", "instruction");
  s.SetColumn(columns, "query", "field_input", "input");
  s.SetColumn(columns, "response", "field_output", "output");
  s.SetColumn(columns, "system", "field_system", "system");
  if (!TextAt(columns, "history", "").empty()) {
    s.t->Refuse(s.key, "earlier turns in a column of their own have no counterpart");
  }
}

void SetConversations(const Source& s, const Json& columns, const Json& tags, bool openai) {
  const std::string role = TextAt(tags, "role_tag", openai ? "role" : "from");
  const std::string content = TextAt(tags, "content_tag", openai ? "content" : "value");
  const bool chat = role == "role" && content == "content";
  s.Set("format", chat ? "chat" : "sharegpt");
  s.SetColumn(columns, "messages", "field_messages", chat ? "messages" : "conversations");
  if (TextAt(columns, "messages", "").empty() && chat) s.Set("field_messages", "conversations");
  s.SetColumn(columns, "system", "field_system", "system");
  s.SetColumn(columns, "tools", "field_tools", "tools");
  if (role != (chat ? "role" : "from")) s.Set("message_role_key", role);
  if (content != (chat ? "content" : "value")) s.Set("message_content_key", content);
  Json roles = Json::object();
  for (const auto& [tag, ours, usual] :
       {std::tuple("user_tag", "user", chat ? "user" : "human"),
        std::tuple("assistant_tag", "assistant", chat ? "assistant" : "gpt"),
        std::tuple("system_tag", "system", "system")}) {
    const std::string theirs = TextAt(tags, tag, usual);
    if (theirs != usual) roles[ours] = Json::array({theirs});
  }
  if (!roles.empty()) s.Set("roles", roles);
}

// Beside what the format of its prompt says.
void SetPreference(const Source& s, const Json& columns, bool ranked) {
  s.Set("format", ranked ? "preference" : "unpaired_preference");
  s.SetColumn(columns, "chosen", "field_chosen", "chosen");
  s.SetColumn(columns, "rejected", "field_rejected", "rejected");
  s.SetColumn(columns, "kto_tag", "field_label", "label");
}

void SetFormat(const Source& s) {
  const Json none = Json::object();
  const Json& columns = s.entry.contains("columns") ? s.entry["columns"] : none;
  const Json& tags = s.entry.contains("tags") ? s.entry["tags"] : none;
  for (const char* media : {"images", "videos", "audios"}) {
    if (columns.contains(media)) {
      s.t->Refuse(s.key, absl::StrCat(media, " have no counterpart yet"));
      return;
    }
  }
  const bool ranked = s.entry.contains("ranking") && s.entry["ranking"] == true;
  const bool tagged = columns.contains("kto_tag");
  if ((ranked || tagged) != s.preferences) {
    s.t->Refuse(s.key, s.preferences
                           ? "no data set of preferences: ranking or kto_tag says so"
                           : "a data set of preferences, which stage dpo, kto or rm reads");
    return;
  }
  const std::string formatting = TextAt(s.entry, "formatting", "alpaca");
  if (formatting == "alpaca") {
    SetAlpaca(s, columns);
  } else {
    SetConversations(s, columns, tags, formatting == "openai");
  }
  if (s.preferences) SetPreference(s, columns, ranked);
}

void TranslateNames(Translation* t, std::string_view key, const std::string& list,
                    const DatasetInfo& info, const std::string& base_dir) {
  const std::vector<std::string> names = Names(t->Take(key));
  const Node* most = t->Take("max_samples");
  const bool pretrain = *t->Find("spec.method") == "pretrain";
  const bool preferences = TrainsPreferences(*t);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string target = absl::StrCat(list, "[", i, "].");
    if (!info.entries.is_object() || !info.entries.contains(names[i]) ||
        !info.entries[names[i]].is_object()) {
      t->Refuse(key,
                info.folder.empty()
                    ? absl::StrCat(
                          names[i], ": ", kInfoFile,
                          " was not found beside the file; cox import takes --dataset-dir FOLDER")
                    : absl::StrCat(names[i], " is not in ", info.folder, "/", kInfoFile));
      continue;
    }
    const Source source{t, key, target, info.entries[names[i]], pretrain, preferences};
    SetPlace(source, info.folder, base_dir);
    SetFormat(source);
    if (most != nullptr) t->Set("max_samples", target + "max_samples", ToJson(*most));
    if (source.entry.contains("num_samples")) {
      t->Differ(key, absl::StrCat(names[i], ": num_samples draws records; all are read"));
    }
  }
}

void TranslateTemplate(Translation* t) {
  const std::string name = TextOf(t->Take("template"));
  const std::string path = "spec.chat_template";
  Json kwargs = Json::object();
  for (const char* key : {"enable_thinking", "preserve_thinking"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    kwargs[key] = IsOn(value);
    t->Set(key, "spec.chat_template_kwargs", kwargs);
  }
  if (*t->Find("spec.method") == "pretrain") {
    if (!name.empty()) t->LeaveOut("template", "texts have no turns");
    return;
  }
  if (name.empty()) {
    t->Preset(path, "tokenizer_default", "the default of template");
  } else if (std::find(std::begin(kSameTemplates), std::end(kSameTemplates), name) !=
             std::end(kSameTemplates)) {
    t->Set("template", path, name);
  } else if (name == "empty" || name == "default" || name == "fewshot" || name == "alpaca") {
    t->Refuse("template", "this prompt has no counterpart but a Jinja file");
  } else {
    t->Set(
        "template", path, "tokenizer_default",
        absl::StrCat("LLaMA-Factory's own ", name,
                     " is not brought along; the model's template: compare by cox data preview"));
    const bool silent = name.size() > 8 && name.rfind("_nothink") == name.size() - 8;
    if (silent && kwargs.empty()) {
      kwargs["enable_thinking"] = false;
      t->Set("template", "spec.chat_template_kwargs", kwargs);
    }
  }
}

void TranslateMasks(Translation* t) {
  if (TrainsPreferences(*t)) {
    for (const char* key : {"train_on_prompt", "mask_history"}) {
      if (t->Take(key) != nullptr) t->LeaveOut(key, "whole completions are compared");
    }
    return;
  }
  if (const Node* all = t->Take("train_on_prompt")) {
    t->Set("train_on_prompt", "spec.train_on_inputs", IsOn(all));
  }
  t->Preset("spec.train_on_inputs", false, "the default of train_on_prompt");
  const Node* last = t->Take("mask_history");
  if (last != nullptr && IsOn(last)) {
    t->Set("mask_history", "spec.train_on", "last");
  } else if (last != nullptr) {
    t->LeaveOut("mask_history", "off");
  }
}

void TranslatePacking(Translation* t) {
  const Node* packing = t->Take("packing");
  const Node* neat = t->Take("neat_packing");
  const bool pretrain = *t->Find("spec.method") == "pretrain";
  const bool on = IsOn(packing) || IsOn(neat) || (packing == nullptr && pretrain);
  if (neat != nullptr) {
    if (IsOn(neat)) t->Set("neat_packing", "spec.packing.strategy", "best_fit");
    if (!IsOn(neat)) t->LeaveOut("neat_packing", "off");
  }
  if (packing != nullptr) {
    t->Set("packing", "spec.packing.strategy", on ? "best_fit" : "none");
  }
  t->Preset("spec.packing.strategy", on ? "best_fit" : "none", "the default of packing");
  if (on && !IsOn(neat)) {
    t->Differ("packing", "documents of a bin never see each other, as by neat_packing");
  }
}

}  // namespace

void TranslateLlamaFactoryData(Translation* t, const std::string& base_dir,
                               const std::string& dataset_dir) {
  const Node* folder = t->Take("dataset_dir");
  const DatasetInfo info = FindInfo(dataset_dir, TextOf(folder), base_dir);
  if (folder != nullptr) t->LeaveOut("dataset_dir", absl::StrCat("where ", kInfoFile, " lies"));
  TranslateNames(t, "dataset", "spec.datasets", info, base_dir);
  TranslateNames(t, "eval_dataset", "spec.test_datasets", info, base_dir);
  TranslateTemplate(t);
  TranslateMasks(t);
  t->Move("cutoff_len", "spec.sequence_len");
  t->Preset("spec.sequence_len", 2048, "the default of cutoff_len");
  t->Preset("spec.excess_length", *t->Find("spec.method") == "pretrain" ? "split" : "truncate",
            "LLaMA-Factory shortens a prompt and its answer in proportion");
  TranslatePacking(t);
  const Node* mix = t->Take("mix_strategy");
  if (mix != nullptr && mix->text != "concat") {
    t->Refuse("mix_strategy", "sources are joined; weight counts copies of a record");
  } else if (mix != nullptr) {
    t->LeaveOut("mix_strategy", "sources are joined");
  }
  const Node* held = t->Take("val_size");
  if (held != nullptr && !IsOff(*held)) {
    t->Set("val_size", "spec.val_set_size", ToJson(*held));
  } else if (held != nullptr) {
    t->LeaveOut("val_size", "nothing is held back");
  }
}

}  // namespace coxswain::job_import
