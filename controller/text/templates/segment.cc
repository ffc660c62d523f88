#include "controller/text/templates/segment.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain::data {

absl::StatusOr<SpecialToken> TemplateTokens::Require(std::string_view token,
                                                     std::string_view needed_by) const {
  const std::string text(token);
  if (const std::optional<int32_t> id = find(token)) return SpecialToken{*id, text};
  const char* remedy =
      own_template.empty()
          ? "name the template it was trained with (chat_template: llama3, mistral, ...) or give "
            "the path of its Jinja file"
          : "the model came with a template of its own: set chat_template: tokenizer_default";
  return absl::InvalidArgumentError(absl::StrCat(std::string(needed_by), " needs the token ", text,
                                                 ", which the tokenizer ", tokenizer,
                                                 " does not have; ", remedy));
}

absl::StatusOr<SpecialToken> TemplateTokens::RequireEos(std::string_view needed_by) const {
  if (eos.id >= 0) return eos;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(needed_by), " ends documents with EOS, but tokenizer_config.json of ", tokenizer,
      " names no eos_token"));
}

}  // namespace coxswain::data
