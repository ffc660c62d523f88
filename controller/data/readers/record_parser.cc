#include "controller/data/readers/record_parser.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <simdjson.h>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/readers/classification_parser.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/readers/fields_read.h"
#include "controller/data/readers/preference.h"
#include "controller/data/readers/preference_parser.h"
#include "controller/data/readers/tokenized_parser.h"
#include "controller/data/readers/typed_fields.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;
using config::RecordFields;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

bool IsBlank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

// A list of pairs, or its JSON text, as CSV has it.
absl::Status ReadHistory(object from, const std::string& field, AlpacaRecord* record) {
  element value;
  if (field.empty() || from.at_key(field).get(value) != simdjson::SUCCESS || value.is_null()) {
    return absl::OkStatus();
  }
  std::string_view text;
  const bool written = value.get(text) == simdjson::SUCCESS;
  if (written && text.empty()) return absl::OkStatus();
  const auto pairs = nlohmann::json::parse(written ? std::string(text) : simdjson::minify(value),
                                           nullptr, /*allow_exceptions=*/false);
  if (pairs.is_null()) return absl::OkStatus();
  if (!pairs.is_array()) {
    return Bad(absl::StrCat("field \"", field, "\" is ", TypeName(value),
                            ", not a list of pairs [question, answer]; set field_history to \"\" "
                            "where it is something else"));
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const nlohmann::json& pair = pairs[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return Bad(
          absl::StrCat("field \"", field, "[", i, "]\" is no pair of texts [question, answer]"));
    }
    record->history.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> ParseAlpaca(object from, const RecordFields& fields, RecordNotes* notes) {
  AlpacaRecord record;
  ASSIGN_OR_RETURN(record.instruction, TextField(from, fields.instruction));
  ASSIGN_OR_RETURN(record.input, OptionalText(from, fields.input));
  if (!fields.system.empty()) {
    ASSIGN_OR_RETURN(record.system, OptionalText(from, fields.system));
  }
  ASSIGN_OR_RETURN(record.output, TextField(from, fields.output));
  RETURN_IF_ERROR(ReadHistory(from, fields.history, &record));
  if (IsBlank(record.output)) Note(NoteKind::kEmptyAnswer, "", notes);
  return record;
}

absl::StatusOr<Record> ParseCompletion(object from, const RecordFields& fields) {
  CompletionRecord record;
  ASSIGN_OR_RETURN(record.text, TextField(from, fields.text));
  return record;
}

absl::StatusOr<Record> ParsePrompt(object from, const RecordFields& fields, RecordNotes* notes) {
  PromptRecord record;
  ASSIGN_OR_RETURN(record.prompt, TextField(from, fields.prompt));
  ASSIGN_OR_RETURN(record.completion, TextField(from, fields.completion));
  if (IsBlank(record.completion)) Note(NoteKind::kEmptyAnswer, "", notes);
  return record;
}

// A boolean, or 0 or 1.
bool ReadTruth(element value, bool* truth) {
  int64_t number = 0;
  if (value.get(*truth) == simdjson::SUCCESS) return true;
  if (value.get(number) != simdjson::SUCCESS || (number != 0 && number != 1)) return false;
  *truth = number == 1;
  return true;
}

absl::StatusOr<Record> ParseSegments(object from, RecordNotes* notes) {
  ASSIGN_OR_RETURN(const array list, ListField(from, "segments"));
  SegmentsRecord record;
  for (element item : list) {
    const std::string where = absl::StrCat("segments[", record.segments.size(), "]");
    object segment;
    if (item.get(segment) != simdjson::SUCCESS) {
      return Bad(absl::StrCat("field \"", where, "\" is ", TypeName(item), ", not an object"));
    }
    ASSIGN_OR_RETURN(std::string text, TextField(segment, "text"));
    element given;
    bool label = false;
    if (segment.at_key("label").get(given) != simdjson::SUCCESS || !ReadTruth(given, &label)) {
      return Bad(absl::StrCat("field \"", where, ".label\" is missing or neither true nor false"));
    }
    record.segments.push_back({std::move(text), label});
    for (const auto field : segment) {
      if (field.key == "text" || field.key == "label") continue;
      Note(NoteKind::kUnreadField, absl::StrCat("segments[].", std::string(field.key)), notes);
    }
  }
  return record;
}

absl::StatusOr<Record> ParseMessages(std::string_view json, DatasetFormat format,
                                     const RecordFields& fields, config::PromptStyle style,
                                     RecordNotes* notes) {
  // simdjson has validated it; what it takes and this parser does not is a number too large.
  const auto record = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (record.is_discarded()) return Bad("bad JSON: a number is out of range");
  if (format == DatasetFormat::kPromptCompletion) return ParsePromptMessages(record, fields, notes);
  if (format == DatasetFormat::kPreference) return ParsePair(record, fields, style, notes);
  if (format == DatasetFormat::kUnpairedPreference) {
    return ParseLabelled(record, fields, style, notes);
  }
  if (format == DatasetFormat::kClassification) return ParseClassified(record, fields, notes);
  return ParseConversation(record, fields, notes);
}

// What keeps the order of an object's keys looks for each of them one by one.
constexpr size_t kMostKeys = 10'000;
// Any object of more keys takes more bytes.
constexpr size_t kTextOfMostKeys = 4 * kMostKeys;

absl::Status CheckSizes(element value) {
  array items;
  object keys;
  if (value.get(items) == simdjson::SUCCESS) {
    for (const element item : items) RETURN_IF_ERROR(CheckSizes(item));
  } else if (value.get(keys) == simdjson::SUCCESS) {
    size_t count = 0;
    for (const auto field : keys) {
      if (++count > kMostKeys) {
        return Bad(absl::StrCat("an object of it has more than ", kMostKeys, " fields"));
      }
      RETURN_IF_ERROR(CheckSizes(field.value));
    }
  }
  return absl::OkStatus();
}

// Null, "", [] and {} hold nothing that could be lost.
bool HoldsNothing(element value) {
  switch (value.type()) {
    case element_type::NULL_VALUE:
      return true;
    case element_type::STRING:
      return value.get_string_length().value_unsafe() == 0;
    case element_type::ARRAY:
      return array(value).size() == 0;
    case element_type::OBJECT:
      return object(value).size() == 0;
    default:
      return false;
  }
}

// `label: false`; empty: the value is no verdict. Sets of texts have labels that are classes.
std::string VerdictOf(std::string_view key, element value, DatasetFormat format) {
  const bool talks = format == DatasetFormat::kPromptCompletion || format == DatasetFormat::kChat ||
                     format == DatasetFormat::kSharegpt;
  if (!talks && format != DatasetFormat::kAlpaca) return "";
  bool truth = false;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    const std::string lower = absl::AsciiStrToLower(std::string(text));
    if (lower != "true" && lower != "false") return "";
    truth = lower == "true";
  } else if (!ReadTruth(value, &truth) || (!talks && !value.is_bool())) {
    return "";
  }
  return absl::StrCat(std::string(key), ": ", truth ? "true" : "false");
}

}  // namespace

struct RecordParser::Impl {
  DatasetFormat format;
  config::PromptStyle style;
  RecordFields fields;
  std::vector<std::string> read;       // names of fields
  std::vector<std::string> text_read;  // those of a prompt and a completion that are texts

  bool Reads(std::string_view name, bool is_text) const {
    const std::vector<std::string>& names = is_text ? text_read : read;
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  absl::Status LookAtFields(object from, bool is_text, RecordNotes* notes) const;

  simdjson::dom::parser parser;
};

// Notes those that are not read, and refuses a record of preference tuning.
absl::Status RecordParser::Impl::LookAtFields(object from, bool is_text, RecordNotes* notes) const {
  PreferenceMarks marks;
  for (const auto field : from) {
    if (Reads(field.key, is_text)) continue;
    if (field.key == "chosen") marks.chosen = !field.value.is_null();
    if (field.key == "rejected") marks.rejected = !field.value.is_null();
    if (field.key == "label" || field.key == "kto_tag") {
      std::string verdict = VerdictOf(field.key, field.value, format);
      if (!verdict.empty()) marks.verdict = std::move(verdict);
    }
    if (notes == nullptr || HoldsNothing(field.value)) continue;
    notes->push_back({NoteKind::kUnreadField, std::string(field.key)});
  }
  if (IsPreferenceFormat(format) || format == DatasetFormat::kClassification) {
    return absl::OkStatus();
  }
  const bool both = fields.messages.empty() && Reads("conversations", is_text) &&
                    from.at_key("messages").error() == simdjson::SUCCESS &&
                    from.at_key("conversations").error() == simdjson::SUCCESS;
  if (both) Note(NoteKind::kUnreadField, "conversations", notes);
  return marks.Refuse();
}

RecordParser::RecordParser(DatasetFormat format, RecordFields fields, config::PromptStyle style)
    : impl_(std::make_unique<Impl>()) {
  impl_->format = format;
  impl_->style = style;
  impl_->read = FieldsRead(format, fields);
  impl_->text_read = {fields.prompt, fields.completion};
  impl_->fields = std::move(fields);
}

RecordParser::~RecordParser() = default;

absl::StatusOr<Record> RecordParser::Parse(std::string_view json, RecordNotes* notes) {
  element root;
  // The parser copies the text to give it the padding it reads beyond the end.
  const simdjson::error_code error =
      impl_->parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root);
  if (error != simdjson::SUCCESS) {
    const std::string other = NotUtf8Text(json);
    return Bad(absl::StrCat("bad JSON: ", other.empty() ? simdjson::error_message(error) : other));
  }
  object from;
  if (root.get(from) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("the record is ", TypeName(root), ", not an object"));
  }
  if (json.size() > kTextOfMostKeys) RETURN_IF_ERROR(CheckSizes(root));
  const RecordFields& fields = impl_->fields;
  const bool is_text =
      impl_->format == DatasetFormat::kPromptCompletion && !from.at_key(fields.prompt).is<array>();
  RETURN_IF_ERROR(impl_->LookAtFields(from, is_text, notes));
  switch (impl_->format) {
    case DatasetFormat::kAlpaca:
      return ParseAlpaca(from, fields, notes);
    case DatasetFormat::kPromptCompletion:
      if (is_text) return ParsePrompt(from, fields, notes);
      break;
    case DatasetFormat::kCompletion:
      return ParseCompletion(from, fields);
    case DatasetFormat::kInputOutput:
      return ParseSegments(from, notes);
    case DatasetFormat::kTokenized: {
      ASSIGN_OR_RETURN(TokenizedRecord record, ParseTokenized(from));
      return record;
    }
    case DatasetFormat::kChat:
    case DatasetFormat::kSharegpt:
    case DatasetFormat::kPreference:
    case DatasetFormat::kUnpairedPreference:
    case DatasetFormat::kClassification:
    case DatasetFormat::kAuto:
      break;
  }
  return ParseMessages(json, impl_->format, fields, impl_->style, notes);
}

}  // namespace coxswain::data
