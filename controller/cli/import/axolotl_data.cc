#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/cli/import/axolotl_place.h"
#include "controller/cli/import/axolotl_preference.h"
#include "controller/cli/import/detect_tool.h"
#include "controller/cli/import/translation/data_source.h"
#include "controller/cli/import/translation/hub_name.h"
#include "controller/cli/import/translation/schedule.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;
using Json = nlohmann::ordered_json;

// Types that read records as we do. Others have a prompt of their own.
constexpr struct {
  std::string_view theirs, format;
} kFormats[] = {
    {"alpaca", "alpaca"},
    {"chat_template", "chat"},
    {"sharegpt", "sharegpt"},
    {"completion", "completion"},
    {"pretrain", "completion"},
    {"input_output", "input_output"},
    {"chat_template.default", "chat"},
};

// Templates that both bring under one name.
constexpr std::string_view kSharedTemplates[] = {"chatml", "llama3", "gemma", "alpaca",
                                                 "tokenizer_default"};

void SetTemplate(Translation* t, const Scope& scope, std::string_view key,
                 const std::string& name) {
  const std::string path = "spec.chat_template";
  if (std::find(std::begin(kSharedTemplates), std::end(kSharedTemplates), name) !=
      std::end(kSharedTemplates)) {
    t->Set(scope, key, path, name);
  } else if (name.rfind("tokenizer_default_fallback_", 0) == 0) {
    t->Set(scope, key, path, "tokenizer_default", "without one of its own the model is refused");
  } else {
    t->Set(scope, key, path, "tokenizer_default",
           absl::StrCat("Axolotl's own ", name, " is not brought along; the model's template: ",
                        "compare by cox data preview"));
  }
}

// chat_template with chat_template_jinja, at the top or of one source.
void TranslateTemplate(Translation* t, Scope* scope) {
  const Node* name = scope->config.Take("chat_template");
  const Node* jinja = scope->config.Take("chat_template_jinja");
  const std::string text = TextOf(jinja);
  if (!text.empty() && (name == nullptr || name->text == "jinja")) {
    if (text.find("{%") != std::string::npos || text.find("{{") != std::string::npos) {
      t->Note(*scope, Outcome::kRefused, "chat_template_jinja",
              "write the template to a file and name the file");
    } else {
      t->Set(*scope, "chat_template_jinja", "spec.chat_template", LocalForm(text));
    }
    if (name != nullptr) t->Note(*scope, Outcome::kLeftOut, "chat_template", "the file says it");
    return;
  }
  if (name != nullptr) SetTemplate(t, *scope, "chat_template", name->text);
}

void SetKey(Translation* t, const Scope& scope, std::string_view key, std::string_view ours,
            const std::string& value, std::string_view usual) {
  if (value == usual) {
    t->Note(scope, Outcome::kLeftOut, key, "as the format has it");
  } else {
    t->Set(scope, key, absl::StrCat(scope.target, std::string(ours)), value);
  }
}

// Conversations: which list, which keys of a message.
void TranslateMessages(Translation* t, Scope* scope, bool sharegpt) {
  std::string role = sharegpt ? "from" : "role", content = sharegpt ? "value" : "content";
  std::string role_key, content_key;
  for (const auto& [key, value, origin] :
       {std::tuple("message_field_role", &role, &role_key),
        std::tuple("message_field_content", &content, &content_key)}) {
    if (const Node* node = scope->config.Take(key)) {
      *value = node->text;
      *origin = key;
    }
  }
  if (const Node* mapping = scope->config.Take("message_property_mappings")) {
    for (const Entry& entry : mapping->entries) {
      if (entry.key == "role") role = entry.value.text;
      if (entry.key == "content") content = entry.value.text;
    }
    role_key = content_key = "message_property_mappings";
  }
  sharegpt = role == "from" && content == "value";
  t->Set(*scope, "type", absl::StrCat(scope->target, "format"), sharegpt ? "sharegpt" : "chat");
  if (!role_key.empty()) {
    SetKey(t, *scope, role_key, "message_role_key", role, sharegpt ? "from" : "role");
  }
  if (!content_key.empty()) {
    SetKey(t, *scope, content_key, "message_content_key", content, sharegpt ? "value" : "content");
  }
  const std::string usual = sharegpt ? "conversations" : "messages";
  if (const Node* field = scope->config.Take("field_messages")) {
    SetKey(t, *scope, "field_messages", "field_messages", field->text, usual);
  } else if (sharegpt && t->Find("spec.datasets") != nullptr) {
    const Node* type = scope->config.Take("type");
    const bool old_type = TextOf(type).rfind("sharegpt", 0) == 0;
    if (!old_type) t->Preset(absl::StrCat(scope->target, "field_messages"), "messages");
  }
  if (const Node* trains = scope->config.Take("message_field_training")) {
    if (TextOf(trains) == "train") {
      t->Note(*scope, Outcome::kLeftOut, "message_field_training", "train is what is read");
    } else {
      t->Note(*scope, Outcome::kRefused, "message_field_training",
              "a message's own mask is read from its key train");
    }
  }
}

// What a job says once and Axolotl says of each source.
void TranslateMask(Translation* t, Scope* scope) {
  for (const auto& [key, path] : {std::pair("roles_to_train", "spec.roles_to_train"),
                                  std::pair("train_on_eos", "spec.train_on_eos"),
                                  std::pair("train_on_eot", "spec.train_on_eos")}) {
    const Node* value = scope->config.Take(key);
    if (value == nullptr) continue;
    if (TrainsPreferences(*t)) {
      t->Note(*scope, Outcome::kLeftOut, key, "whole completions are compared");
      continue;
    }
    const Json ours = key == std::string("roles_to_train") ? Json(TextsOf(value)) : ToJson(*value);
    const Json* before = t->Find(path);
    if (before != nullptr && *before != ours) {
      t->Note(*scope, Outcome::kRefused, key, "the sources of a job have one value");
    } else {
      t->Set(*scope, key, path, ours);
    }
  }
}

// type as a map: fields by name, perhaps with a prompt of its own.
void TranslateOwnType(Translation* t, Scope* scope, const Node& type) {
  for (const Entry& entry : type.entries) {
    if (entry.value.kind == Node::Kind::kNull) continue;
    if (entry.key.rfind("field_", 0) == 0 && IsPlainName(entry.key)) {
      t->Set(*scope, "type", absl::StrCat(scope->target, entry.key), ToJson(entry.value));
    } else {
      t->Note(
          *scope, Outcome::kRefused, "type",
          absl::StrCat(entry.key, ": a prompt of one's own has no counterpart but a Jinja file"));
    }
  }
  t->Set(*scope, "type", absl::StrCat(scope->target, "format"), "alpaca");
}

void TranslateType(Translation* t, Scope* scope) {
  const Node* type = scope->config.Take("type");
  if (type == nullptr) {
    t->Preset(absl::StrCat(scope->target, "format"), "tokenized",
              "a source without a type holds tokens");
    return;
  }
  if (type->kind == Node::Kind::kMap) return TranslateOwnType(t, scope, *type);
  std::string format;
  for (const auto& row : kFormats) {
    if (type->text == row.theirs) format = std::string(row.format);
  }
  if (format.empty()) {
    t->Note(*scope, Outcome::kRefused, "type",
            "its prompt has no counterpart; alpaca, chat_template, completion and input_output do");
    return;
  }
  if (format == "chat" || format == "sharegpt") {
    TranslateMessages(t, scope, format == "sharegpt");
    return;
  }
  t->Set(*scope, "type", absl::StrCat(scope->target, "format"), format);
  if (format == "alpaca") t->Preset(absl::StrCat(scope->target, "prompt_style"), "alpaca");
}

void TranslateSource(Translation* t, Scope* scope, const std::string& base_dir) {
  TranslateAxolotlPlace(t, scope, base_dir);
  if (TrainsPreferences(*t) || t->Has("rl") || IsOn(t->Peek("process_reward_model"))) {
    TranslatePreferenceType(t, scope);
  } else {
    TranslateType(t, scope);
  }
  for (const char* key : {"field", "text_column"}) {
    if (const Node* field = scope->config.Take(key)) {
      SetKey(t, *scope, key, "field_text", field->text, "text");
    }
  }
  if (const Node* conversation = scope->config.Take("conversation")) {
    SetTemplate(t, *scope, "conversation", conversation->text);
  }
  TranslateTemplate(t, scope);
  TranslateMask(t, scope);
  t->TranslateRest(scope);
}

// `rows` are those of datasets whatever the list is called.
void TranslateSources(Translation* t, std::string_view key, const std::string& target,
                      const std::string& base_dir) {
  const Node* list = t->Take(key);
  if (list == nullptr) return;
  Node none;
  none.kind = Node::Kind::kMap;
  const std::vector<Node> one = {*list};
  const std::vector<Node> items =
      OnePlaceEach(list->kind == Node::Kind::kList ? list->items : one, base_dir);
  for (size_t i = 0; i < items.size(); ++i) {
    const bool named = items[i].kind == Node::Kind::kScalar;
    Scope scope{ForeignConfig(named ? none : items[i]),
                absl::StrCat(std::string(key), "[", i, "]."), "datasets[].",
                absl::StrCat(target, "[", i, "].")};
    if (named) {
      scope.shown = std::string(key);
      SetSourcePath(t, scope, "", items[i].text, base_dir);
      t->Preset(absl::StrCat(scope.target, "format"), "completion");
    } else {
      TranslateSource(t, &scope, base_dir);
    }
  }
}

// What a preference holds is known by its records alone.
bool HasConversations(const Translation& t) {
  if (TrainsPreferences(t)) return true;
  const Json* sources = t.Find("spec.datasets");
  if (sources == nullptr) return false;
  return std::any_of(sources->begin(), sources->end(), [](const Json& source) {
    const std::string format = source.value("format", "");
    return format == "chat" || format == "sharegpt";
  });
}

void TranslateLengths(Translation* t) {
  if (const Node* older = t->Take("max_packed_sequence_len")) {
    t->Set("max_packed_sequence_len", "spec.sequence_len", ToJson(*older));
  }
  t->Move("sequence_len", "spec.sequence_len");
  t->Preset("spec.sequence_len", 512, "the default of sequence_len");
  const std::string excess = TextOf(t->Take("excess_length_strategy"));
  if (!excess.empty()) {
    t->Set("excess_length_strategy", "spec.excess_length", excess == "raise" ? "error" : excess);
  }
  t->Preset("spec.excess_length", "drop", "the default of excess_length_strategy");
  const Node* packing = t->Take("sample_packing");
  if (packing == nullptr || !IsOn(packing)) {
    if (packing != nullptr) t->Set("sample_packing", "spec.packing.strategy", "none");
    t->Preset("spec.packing.strategy", "none", "the default of sample_packing");
    return;
  }
  t->Set("sample_packing", "spec.packing.strategy", "best_fit");
  t->Move("sample_packing_group_size", "spec.packing.window");
  t->Move("sample_packing_bin_size", "spec.packing.max_documents_per_bin");
  t->Preset("spec.packing.max_documents_per_bin", 200, "the default of sample_packing_bin_size");
}

}  // namespace

void TranslateAxolotlData(Translation* t, const std::string& base_dir) {
  if (t->Has("pretraining_dataset")) {
    if (t->Take("datasets") != nullptr) t->LeaveOut("datasets", "pretraining_dataset wins");
    TranslateSources(t, "pretraining_dataset", "spec.datasets", base_dir);
    t->Preset("spec.method", "pretrain", "pretraining_dataset");
  } else {
    TranslateSources(t, "datasets", "spec.datasets", base_dir);
    t->Preset("spec.method", "sft");
  }
  TranslateSources(t, "test_datasets", "spec.test_datasets", base_dir);
  const bool named_by_type = TrainsPreferences(*t) && t->Find("spec.chat_template") != nullptr;
  if (HasConversations(*t) && !named_by_type) {
    TranslateTemplate(t, &t->top());
    t->Preset("spec.chat_template", "tokenizer_default", "the default of chat_template");
  } else {
    for (const char* key : {"chat_template", "chat_template_jinja"}) {
      if (t->Take(key) == nullptr) continue;
      t->LeaveOut(
          key, named_by_type ? "the types of the sources say it" : "no source holds conversations");
    }
  }
  if (const Node* held = t->Take("val_set_size")) {
    if (IsOff(*held)) {
      t->LeaveOut("val_set_size", "nothing is held back");
    } else {
      t->Set("val_set_size", "spec.val_set_size", ToJson(*held));
    }
  }
  TranslateLengths(t);
}

}  // namespace coxswain::job_import
