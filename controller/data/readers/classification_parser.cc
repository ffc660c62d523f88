#include "controller/data/readers/classification_parser.h"

#include <cstdint>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"

namespace coxswain::data {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Label = ClassifiedRecord::Label;

constexpr auto kLargestIndex = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

absl::Status BadClassified(const std::string& what) { return absl::InvalidArgumentError(what); }

bool Holds(const OrderedJson& record, const std::string& name) {
  const auto found = name.empty() ? record.end() : record.find(name);
  return found != record.end() && !found->is_null();
}

absl::StatusOr<Label> LabelOf(const OrderedJson& value, const std::string& where) {
  if (value.is_boolean()) return Label(value.get<bool>());
  const bool large = value.is_number_unsigned() && value.get<uint64_t>() > kLargestIndex;
  if (value.is_number_float() || large) return Label(value.get<double>());
  if (value.is_number()) return Label(value.get<int64_t>());
  if (value.is_string()) return Label(value.get<std::string>());
  return BadClassified(
      absl::StrCat("field \"", where, "\" is ", value.type_name(), ", not a class or a number"));
}

// Of a list that is written as text, the list.
OrderedJson Unwritten(const OrderedJson& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().rfind('[', 0) != 0) return value;
  OrderedJson list = OrderedJson::parse(value.get_ref<const std::string&>(), nullptr,
                                        /*allow_exceptions=*/false);
  return list.is_array() ? list : value;
}

absl::Status ReadLabels(const OrderedJson& record, const config::RecordFields& fields,
                        ClassifiedRecord* classified) {
  for (const std::string& name : ClassLabelFields(fields)) {
    if (!Holds(record, name)) continue;
    const OrderedJson value = Unwritten(record[name]);
    classified->is_list = value.is_array();
    const size_t count = classified->is_list ? value.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      const std::string where = classified->is_list ? absl::StrCat(name, "[", i, "]") : name;
      ASSIGN_OR_RETURN(Label label, LabelOf(classified->is_list ? value[i] : value, where));
      classified->labels.push_back(std::move(label));
    }
    return absl::OkStatus();
  }
  return BadClassified(absl::StrCat("field \"", ClassLabelFields(fields).front(),
                                    "\" is missing; it holds the class of the text"));
}

absl::StatusOr<CompletionRecord> TextOf(const OrderedJson& record, const std::string& name) {
  const OrderedJson& value = record[name];
  if (!value.is_string()) {
    return BadClassified(
        absl::StrCat("field \"", name, "\" is ", value.type_name(), ", not a string"));
  }
  if (value == "") return BadClassified(absl::StrCat("field \"", name, "\" is an empty text"));
  return CompletionRecord{value};
}

}  // namespace

absl::StatusOr<ClassifiedRecord> ParseClassified(const OrderedJson& record,
                                                 const config::RecordFields& fields,
                                                 RecordNotes* notes) {
  ClassifiedRecord classified;
  RETURN_IF_ERROR(ReadLabels(record, fields, &classified));
  const std::string messages(MessagesKey(record, fields));
  const bool has_text = Holds(record, fields.text), has_messages = Holds(record, messages);
  if (!has_text && !has_messages) {
    return BadClassified(absl::StrCat("fields \"", fields.text,
                                      "\" and \"messages\" are missing; one of them holds what is "
                                      "classified"));
  }
  if (has_text && (fields.messages.empty() || !has_messages)) {
    if (has_messages) Note(NoteKind::kUnreadField, messages, notes);
    ASSIGN_OR_RETURN(classified.text, TextOf(record, fields.text));
    return classified;
  }
  if (has_text) Note(NoteKind::kUnreadField, fields.text, notes);
  ASSIGN_OR_RETURN(classified.text, ParseConversation(record, fields, notes));
  return classified;
}

std::vector<std::string> ClassLabelFields(const config::RecordFields& fields) {
  if (!fields.label.empty()) return {fields.label};
  return {"label", "labels"};
}

std::vector<std::string> ClassifiedFields(const config::RecordFields& fields) {
  std::vector<std::string> names = {fields.text};
  if (fields.messages.empty()) {
    names.insert(names.end(), {"messages", "conversations"});
  } else {
    names.push_back(fields.messages);
  }
  for (const std::string& name : ClassLabelFields(fields)) names.push_back(name);
  for (const std::string& name : {fields.tools, fields.system}) names.push_back(name);
  names.emplace_back("chat_template_kwargs");
  return names;
}

}  // namespace coxswain::data
