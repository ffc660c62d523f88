#include "controller/data/readers/record_parser.h"

#include <limits>
#include <string>
#include <utility>

#include <simdjson.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;
using config::RecordFields;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

constexpr int64_t kIgnored = -100;  // a label that is no target

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

const char* TypeName(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

absl::StatusOr<std::string> TextField(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", field, "\" is missing"));
  }
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", field, "\" is ", TypeName(value), ", not a string"));
  }
  return std::string(text);
}

// Empty where it is absent or null.
absl::StatusOr<std::string> OptionalText(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS || value.is_null()) return std::string();
  return TextField(from, field);
}

absl::StatusOr<array> ListField(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", field, "\" is missing"));
  }
  array list;
  if (value.get(list) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", field, "\" is ", TypeName(value), ", not an array"));
  }
  return list;
}

absl::StatusOr<Record> ParseAlpaca(object from, const RecordFields& fields) {
  AlpacaRecord record;
  ASSIGN_OR_RETURN(record.instruction, TextField(from, fields.instruction));
  ASSIGN_OR_RETURN(record.input, OptionalText(from, fields.input));
  if (!fields.system.empty()) {
    ASSIGN_OR_RETURN(record.system, OptionalText(from, fields.system));
  }
  ASSIGN_OR_RETURN(record.output, TextField(from, fields.output));
  return record;
}

absl::StatusOr<Record> ParseCompletion(object from, const RecordFields& fields) {
  CompletionRecord record;
  ASSIGN_OR_RETURN(record.text, TextField(from, fields.text));
  return record;
}

absl::StatusOr<Record> ParsePrompt(object from, const RecordFields& fields) {
  PromptRecord record;
  ASSIGN_OR_RETURN(record.prompt, TextField(from, fields.prompt));
  ASSIGN_OR_RETURN(record.completion, TextField(from, fields.completion));
  return record;
}

absl::StatusOr<Record> ParseSegments(object from) {
  ASSIGN_OR_RETURN(const array list, ListField(from, "segments"));
  SegmentsRecord record;
  for (element item : list) {
    const std::string where = absl::StrCat("segments[", record.segments.size(), "]");
    object segment;
    if (item.get(segment) != simdjson::SUCCESS) {
      return Bad(absl::StrCat("field \"", where, "\" is ", TypeName(item), ", not an object"));
    }
    ASSIGN_OR_RETURN(std::string text, TextField(segment, "text"));
    bool label = false;
    if (segment.at_key("label").get(label) != simdjson::SUCCESS) {
      return Bad(absl::StrCat("field \"", where, ".label\" is missing or neither true nor false"));
    }
    record.segments.push_back({std::move(text), label});
  }
  return record;
}

absl::StatusOr<std::vector<int64_t>> Integers(object from, const std::string& field) {
  ASSIGN_OR_RETURN(const array list, ListField(from, field));
  std::vector<int64_t> numbers;
  for (element item : list) {
    int64_t number = 0;
    if (item.get(number) != simdjson::SUCCESS) {
      return Bad(absl::StrCat("field \"", field, "[", numbers.size(), "]\" is ", TypeName(item),
                              ", not a token id"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<Record> ParseTokenized(object from) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids, Integers(from, "input_ids"));
  TokenizedRecord record;
  for (const int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return Bad(absl::StrCat("field \"input_ids\" holds ", id, ", which is no token id"));
    }
    record.ids.push_back(static_cast<int32_t>(id));
  }
  record.trained.assign(ids.size(), true);
  if (from.at_key("labels").error() != simdjson::SUCCESS) return record;
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, Integers(from, "labels"));
  if (labels.size() != ids.size()) {
    return Bad(absl::StrCat("field \"labels\" has ", labels.size(), " entries, \"input_ids\" ",
                            ids.size()));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (labels[i] != kIgnored && labels[i] != ids[i]) {
      return Bad(absl::StrCat("field \"labels[", i, "]\" is ", labels[i], "; it is ", ids[i],
                              " as in input_ids, or ", kIgnored));
    }
    record.trained[i] = labels[i] != kIgnored;
  }
  return record;
}

absl::StatusOr<Record> ParseMessages(std::string_view json, DatasetFormat format,
                                     const RecordFields& fields) {
  // simdjson has validated it; what it takes and this parser does not is a number too large.
  const auto record = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (record.is_discarded()) return Bad("bad JSON: a number is out of range");
  if (format == DatasetFormat::kPromptCompletion) return ParsePromptMessages(record, fields);
  return ParseConversation(record, fields);
}

}  // namespace

struct RecordParser::Impl {
  DatasetFormat format;
  RecordFields fields;
  simdjson::dom::parser parser;
};

RecordParser::RecordParser(DatasetFormat format, RecordFields fields)
    : impl_(std::make_unique<Impl>()) {
  impl_->format = format;
  impl_->fields = std::move(fields);
}

RecordParser::~RecordParser() = default;

absl::StatusOr<Record> RecordParser::Parse(std::string_view json) {
  element root;
  // The parser copies the text to give it the padding it reads beyond the end.
  const simdjson::error_code error =
      impl_->parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root);
  if (error != simdjson::SUCCESS) {
    return Bad(absl::StrCat("bad JSON: ", simdjson::error_message(error)));
  }
  object from;
  if (root.get(from) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("the record is ", TypeName(root), ", not an object"));
  }
  const RecordFields& fields = impl_->fields;
  switch (impl_->format) {
    case DatasetFormat::kAlpaca:
      return ParseAlpaca(from, fields);
    case DatasetFormat::kPromptCompletion:
      if (from.at_key(fields.prompt).is<array>()) {
        return ParseMessages(json, impl_->format, fields);
      }
      return ParsePrompt(from, fields);
    case DatasetFormat::kCompletion:
      return ParseCompletion(from, fields);
    case DatasetFormat::kInputOutput:
      return ParseSegments(from);
    case DatasetFormat::kTokenized:
      return ParseTokenized(from);
    case DatasetFormat::kChat:
    case DatasetFormat::kSharegpt:
    case DatasetFormat::kAuto:
      break;
  }
  return ParseMessages(json, impl_->format, fields);
}

}  // namespace coxswain::data
