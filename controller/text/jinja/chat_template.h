// Renders a conversation with a template, as transformers' apply_chat_template does.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_CHAT_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_CHAT_TEMPLATE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/text/jinja/template.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

// Special tokens of the tokenizer. An absent token is undefined in the template.
struct SpecialTokens {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> pad;
  std::optional<std::string> unk;
};

struct Conversation {
  Value messages;  // a list of dicts
  Value tools = Value::None();
  Value documents = Value::None();
  bool add_generation_prompt = false;
  Value kwargs = Value::None();  // a dict of more variables, or None
};

// A message's reasoning has three names: reasoning_content, thinking, reasoning. Whichever the
// message uses, templates see it as reasoning_content and as thinking. Errors as Template::Render;
// a TypeError when messages, tools or kwargs have another type.
absl::StatusOr<Rendering> RenderChat(const Template& chat_template,
                                     const Conversation& conversation, const SpecialTokens& tokens,
                                     const Clock& clock, const Limits& limits = {});

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_CHAT_TEMPLATE_H_
