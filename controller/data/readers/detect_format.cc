#include "controller/data/readers/detect_format.h"

#include <string>
#include <vector>

#include <simdjson.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/readers/preference.h"
#include "controller/data/readers/preference_parser.h"
#include "controller/data/readers/preference_sides.h"

namespace coxswain::data {

using config::DatasetFormat;

namespace {

constexpr size_t kMostNamed = 20;

// The names of an object's fields in the order of the text, the first kMostNamed of them.
std::string FieldNames(std::string_view record) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  std::vector<std::string> names;
  if (parser.parse(record.data(), record.size()).get(object) != simdjson::SUCCESS) return "";
  for (const auto field : object) {
    names.push_back(names.size() < kMostNamed ? std::string(field.key) : "...");
    if (names.size() > kMostNamed) break;
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<DatasetFormat> DetectFormat(std::string_view record,
                                           const config::RecordFields& fields) {
  const auto json = nlohmann::json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(json.is_discarded() ? "bad JSON"
                                                          : "the record is not an object");
  }
  const auto has = [&](const std::string& field) { return json.contains(field); };
  if (const std::string key(MessagesKey(json, fields)); !key.empty()) {
    const auto& list = json[key];
    const bool from = list.is_array() && !list.empty() && list[0].is_object() &&
                      !list[0].contains("role") && list[0].contains("from");
    return from ? DatasetFormat::kSharegpt : DatasetFormat::kChat;
  }
  if (has("input_ids")) return DatasetFormat::kTokenized;
  if (has("segments")) return DatasetFormat::kInputOutput;
  if (has(fields.instruction) && has(fields.output)) return DatasetFormat::kAlpaca;
  if (has(fields.prompt) && has(fields.completion)) return DatasetFormat::kPromptCompletion;
  if (has(fields.text)) return DatasetFormat::kCompletion;
  const PreferenceMarks marks{.chosen = has("chosen"), .rejected = has("rejected"), .verdict = {}};
  RETURN_IF_ERROR(marks.Refuse());
  return absl::InvalidArgumentError(absl::StrCat(
      "its fields (", FieldNames(record), ") are those of no format; set `format` and name ",
      "the fields it reads, e.g. {format: alpaca, field_instruction: question, field_output: ",
      "answer}. The formats read: messages or conversations; ", fields.instruction, " and ",
      fields.output, "; ", fields.prompt, " and ", fields.completion, "; ", fields.text,
      "; segments; input_ids"));
}

absl::StatusOr<DatasetFormat> DetectAnyFormat(std::string_view record,
                                              const config::RecordFields& fields) {
  const auto json = nlohmann::ordered_json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && NamesSides(json, fields)) return DatasetFormat::kPreference;
  ASSIGN_OR_RETURN(const DatasetFormat format, DetectFormat(record, fields));
  const bool answers = format == DatasetFormat::kChat || format == DatasetFormat::kSharegpt ||
                       format == DatasetFormat::kAlpaca ||
                       format == DatasetFormat::kPromptCompletion;
  if (answers && HasLabel(json, fields)) return DatasetFormat::kUnpairedPreference;
  return format;
}

std::string_view FormatName(DatasetFormat format) {
  switch (format) {
    case DatasetFormat::kAuto:
      return "auto";
    case DatasetFormat::kAlpaca:
      return "alpaca";
    case DatasetFormat::kChat:
      return "chat";
    case DatasetFormat::kSharegpt:
      return "sharegpt";
    case DatasetFormat::kPromptCompletion:
      return "prompt_completion";
    case DatasetFormat::kCompletion:
      return "completion";
    case DatasetFormat::kInputOutput:
      return "input_output";
    case DatasetFormat::kPreference:
      return "preference";
    case DatasetFormat::kUnpairedPreference:
      return "unpaired_preference";
    case DatasetFormat::kClassification:
      return "classification";
    case DatasetFormat::kTokenized:
      break;
  }
  return "tokenized";
}

}  // namespace coxswain::data
