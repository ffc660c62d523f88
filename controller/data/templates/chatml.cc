// <|im_start|>{role}\n{content}<|im_end|>\n for each turn.
#include "common/status_macros.h"
#include "controller/data/templates/chat_renderer.h"

namespace coxswain::data {
namespace {

constexpr char kName[] = "chat_template chatml";

struct Chatml {
  SpecialToken start, end;

  absl::StatusOr<std::vector<Segment>> operator()(std::span<const Message> messages) const {
    RETURN_IF_ERROR(CheckConversation(messages));
    SegmentBuilder out;
    for (const Message& message : messages) {
      const bool target = message.role == Role::kAssistant;
      out.Token(start);
      out.Text(target ? "assistant\n" : message.role == Role::kUser ? "user\n" : "system\n");
      out.Text(message.content, target);
      out.Token(end, target);
      out.Text("\n");
    }
    return out.Take();
  }
};

}  // namespace

absl::StatusOr<ChatRenderer> MakeChatmlRenderer(const TemplateTokens& tokens) {
  Chatml chatml;
  ASSIGN_OR_RETURN(chatml.start, tokens.Require("<|im_start|>", kName));
  ASSIGN_OR_RETURN(chatml.end, tokens.Require("<|im_end|>", kName));
  return chatml;
}

}  // namespace coxswain::data
