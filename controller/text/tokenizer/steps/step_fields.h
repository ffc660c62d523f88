// What steps of tokenizer.json read of their JSON.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_STEP_FIELDS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_STEP_FIELDS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

// Reads members of a parsed JSON object, with defaults for absent ones.

// The member, unless it is absent or null.
inline std::optional<simdjson::dom::element> FindField(simdjson::dom::element object,
                                                       std::string_view key) {
  simdjson::dom::element value;
  if (object[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

// The member as T; `absent` if there is no member or it has another type.
template <typename T>
T Field(simdjson::dom::element object, std::string_view key, T absent) {
  T value = absent;
  if (object[key].get(value) != simdjson::SUCCESS) return absent;
  return value;
}

inline std::string TextField(simdjson::dom::element object, std::string_view key) {
  return std::string(Field<std::string_view>(object, key, ""));
}

// The `pattern` of a Split or Replace step.

// InvalidArgument: `step` has neither pattern.Regex nor pattern.String, or PCRE2 cannot read it.
inline absl::StatusOr<std::unique_ptr<SplitRegex>> ReadPattern(simdjson::dom::element step) {
  std::string_view text;
  if (step["pattern"]["Regex"].get(text) == simdjson::SUCCESS) return SplitRegex::Compile(text);
  if (step["pattern"]["String"].get(text) == simdjson::SUCCESS) {
    return SplitRegex::CompileLiteral(text);
  }
  return absl::InvalidArgumentError(absl::StrCat("step '", TextField(step, "type"),
                                                 "' has neither pattern.Regex nor pattern.String"));
}

// The error for an unsupported step of tokenizer.json.

// InvalidArgument: "<step> <found> is not supported; supported: <supported>".
inline absl::Status UnsupportedStep(std::string_view step, const std::string& found,
                                    std::string_view supported) {
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(step), " ", found, " is not supported; supported: ", std::string(supported)));
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_STEP_FIELDS_H_
