// The `pattern` of a Split or Replace step.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_READ_PATTERN_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_READ_PATTERN_H_

#include <simdjson.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/steps/json_fields.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

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

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_READ_PATTERN_H_
