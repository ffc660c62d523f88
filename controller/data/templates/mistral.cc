// Mistral v3: BOS once, [INST] {content}[/INST] and " {content trimmed}</s>"; the system text
// stands before the last user content.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/templates/chat_renderer.h"
#include "controller/data/templates/strip.h"

namespace coxswain::data {
namespace {

constexpr char kName[] = "chat_template mistral";

absl::Status CheckSystem(std::span<const Message> messages) {
  bool any_user = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    any_user |= messages[i].role == Role::kUser;
    if (i > 0 && messages[i].role == Role::kSystem) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i, "] is a system message; mistral takes one, at the start"));
    }
  }
  if (messages[0].role == Role::kSystem && !any_user) {
    return absl::InvalidArgumentError("mistral needs a user message to carry the system text");
  }
  return absl::OkStatus();
}

struct Mistral {
  SpecialToken begin, start_instruction, end_instruction, end;

  absl::StatusOr<std::vector<Segment>> operator()(std::span<const Message> messages) const {
    RETURN_IF_ERROR(CheckConversation(messages));
    RETURN_IF_ERROR(CheckSystem(messages));
    const bool has_system = messages[0].role == Role::kSystem;
    const auto last_user = std::find_if(messages.rbegin(), messages.rend(),
                                        [](const Message& m) { return m.role == Role::kUser; });
    SegmentBuilder out;
    out.Token(begin);
    for (const Message& message : messages) {
      if (message.role == Role::kUser) {
        out.Token(start_instruction);
        out.Text(" ");
        if (has_system && &message == &*last_user) out.Text(messages[0].content + "\n\n");
        out.Text(message.content);
        out.Token(end_instruction);
      } else if (message.role == Role::kAssistant) {
        out.PrefixedTarget(" ", Strip(message.content));
        out.Token(end, /*target=*/true);
      }
    }
    return out.Take();
  }
};

}  // namespace

absl::StatusOr<ChatRenderer> MakeMistralRenderer(const TemplateTokens& tokens) {
  Mistral mistral;
  ASSIGN_OR_RETURN(mistral.begin, tokens.Require("<s>", kName));
  ASSIGN_OR_RETURN(mistral.start_instruction, tokens.Require("[INST]", kName));
  ASSIGN_OR_RETURN(mistral.end_instruction, tokens.Require("[/INST]", kName));
  ASSIGN_OR_RETURN(mistral.end, tokens.Require("</s>", kName));
  return mistral;
}

}  // namespace coxswain::data
