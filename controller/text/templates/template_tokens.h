// The parts of a tokenizer that templates use: its special tokens, and its own template.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TEMPLATE_TOKENS_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TEMPLATE_TOKENS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {

struct TemplateTokens {
  std::function<std::optional<int32_t>(std::string_view token)> find;
  SpecialToken eos;                  // id -1: the tokenizer names none
  std::string bos, pad, unk;         // empty: none
  std::vector<std::string> special;  // every token marked special, as text
  std::vector<std::string> counted;  // special tokens of the job: they are tokens in content too
  std::vector<std::string> ends;     // tokens with which the model ends its answers
  std::string own_template;          // Jinja text; empty: the model has none
  std::string own_tool_template;     // for conversations with tools; empty: own_template
  std::string tokenizer;             // path of the tokenizer, for messages

  // InvalidArgument names template, token and tokenizer.
  absl::StatusOr<SpecialToken> Require(std::string_view token, std::string_view needed_by) const;
  absl::StatusOr<SpecialToken> RequireEos(std::string_view needed_by) const;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TEMPLATE_TOKENS_H_
