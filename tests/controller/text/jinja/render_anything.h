// A template that nobody would write, through a conversation that has a bit of everything.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_RENDER_ANYTHING_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_RENDER_ANYTHING_H_

#include <string>

#include "controller/text/jinja/chat_template.h"
#include "controller/text/jinja/values/operators.h"

namespace coxswain::data::jinja {

inline constexpr char kOddConversation[] =
    R"([{"role": "system", "content": "Be kind."},
  {"role": "user", "content": [{"type": "text", "text": "Grüße"}]},
  {"role": "assistant", "content": "<think>x</think> yes", "tool_calls": [{"type": "function",
   "function": {"name": "f", "arguments": {"a": 1.5, "b": [null, true]}}}]},
  {"role": "tool", "content": "5", "name": "f"}, {"role": "user", "content": ""}])";

inline Limits SmallLimits() {
  Limits limits;
  limits.steps = 100'000;
  limits.output_bytes = 1 << 20;
  limits.value_bytes = 16 << 20;
  return limits;
}

// Parses and renders `source` within SmallLimits. Empty, or the promise that was broken.
inline std::string RenderAnything(const std::string& source) {
  const auto parsed = Template::Parse(source, "fuzz");
  if (!parsed.ok()) {
    return RefusalOf(parsed.status()) ? "" : "a template that does not parse is refused";
  }
  Conversation conversation;
  conversation.messages = *ParseJson(kOddConversation);
  conversation.tools = *ParseJson(R"([{"type": "function", "function": {"name": "f"}}])");
  const absl::TimeZone zone = absl::UTCTimeZone();
  const Clock clock{absl::FromCivil(absl::CivilSecond(2025, 7, 26, 12, 0, 0), zone), zone};
  const auto rendering =
      RenderChat(**parsed, conversation, {"<s>", "</s>", {}, {}}, clock, SmallLimits());
  if (!rendering.ok()) {
    return RefusalOf(rendering.status()) ? "" : "a template that does not render is refused";
  }
  for (const GenerationSpan& span : rendering->spans) {
    if (span.begin > span.end || span.end > rendering->text.size()) {
      return "a span is part of the text";
    }
  }
  return "";
}

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_RENDER_ANYTHING_H_
