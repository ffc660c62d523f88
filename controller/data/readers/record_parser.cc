#include "controller/data/readers/record_parser.h"

#include <string>
#include <utility>

#include <simdjson.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

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

// `where` names the object in messages, e.g. "" or "messages[2].".
absl::StatusOr<std::string> StringField(object from, const char* field, const std::string& where) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", where, field, "\" is missing"));
  }
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"", where, field, "\" is ", TypeName(value), ", not a string"));
  }
  return std::string(text);
}

absl::StatusOr<Record> ParseAlpaca(object from) {
  AlpacaRecord record;
  ASSIGN_OR_RETURN(record.instruction, StringField(from, "instruction", ""));
  element input;
  if (from.at_key("input").get(input) == simdjson::SUCCESS && !input.is_null()) {
    ASSIGN_OR_RETURN(record.input, StringField(from, "input", ""));
  }
  ASSIGN_OR_RETURN(record.output, StringField(from, "output", ""));
  return record;
}

absl::StatusOr<Role> ParseRole(const std::string& name, const std::string& where) {
  if (name == "system") return Role::kSystem;
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  return Bad(absl::StrCat("field \"", where, "role\" is \"", name,
                          "\"; the roles are system, user, assistant"));
}

absl::StatusOr<Record> ParseChat(object from) {
  element value;
  if (from.at_key("messages").get(value) != simdjson::SUCCESS) {
    const bool sharegpt = from.at_key("conversations").error() == simdjson::SUCCESS;
    return Bad(sharegpt ? "field \"messages\" is missing; \"conversations\" (from/value) is not "
                          "supported, convert it to \"messages\" (role/content)"
                        : "field \"messages\" is missing");
  }
  simdjson::dom::array messages;
  if (value.get(messages) != simdjson::SUCCESS) {
    return Bad(absl::StrCat("field \"messages\" is ", TypeName(value), ", not an array"));
  }
  ChatRecord record;
  for (element item : messages) {
    const std::string where = absl::StrCat("messages[", record.messages.size(), "]");
    object message;
    if (item.get(message) != simdjson::SUCCESS) {
      return Bad(absl::StrCat("field \"", where, "\" is ", TypeName(item), ", not an object"));
    }
    ASSIGN_OR_RETURN(const std::string role, StringField(message, "role", where + "."));
    ASSIGN_OR_RETURN(const Role parsed, ParseRole(role, where + "."));
    ASSIGN_OR_RETURN(std::string content, StringField(message, "content", where + "."));
    record.messages.push_back({parsed, std::move(content)});
  }
  return record;
}

absl::StatusOr<Record> ParseCompletion(object from) {
  CompletionRecord record;
  ASSIGN_OR_RETURN(record.text, StringField(from, "text", ""));
  return record;
}

}  // namespace

struct RecordParser::Impl {
  config::DatasetFormat format;
  simdjson::dom::parser parser;
};

RecordParser::RecordParser(config::DatasetFormat format) : impl_(std::make_unique<Impl>()) {
  impl_->format = format;
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
  switch (impl_->format) {
    case config::DatasetFormat::kAlpaca:
      return ParseAlpaca(from);
    case config::DatasetFormat::kChat:
      return ParseChat(from);
    case config::DatasetFormat::kCompletion:
      break;
  }
  return ParseCompletion(from);
}

}  // namespace coxswain::data
