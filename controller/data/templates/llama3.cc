// BOS once, then <|start_header_id|>{role}<|end_header_id|>\n\n{content trimmed}<|eot_id|>.
#include "common/status_macros.h"
#include "controller/data/templates/chat_renderer.h"
#include "controller/data/templates/strip.h"

namespace coxswain::data {
namespace {

constexpr char kName[] = "chat_template llama3";

struct Llama3 {
  SpecialToken begin_of_text, start_header, end_header, end_of_turn;

  absl::StatusOr<std::vector<Segment>> operator()(std::span<const Message> messages) const {
    RETURN_IF_ERROR(CheckConversation(messages));
    SegmentBuilder out;
    out.Token(begin_of_text);
    for (const Message& message : messages) {
      const bool target = message.role == Role::kAssistant;
      out.Token(start_header);
      out.Text(target ? "assistant" : message.role == Role::kUser ? "user" : "system");
      out.Token(end_header);
      out.Text("\n\n");
      out.Text(Strip(message.content), target);
      out.Token(end_of_turn, target);
    }
    return out.Take();
  }
};

}  // namespace

absl::StatusOr<ChatRenderer> MakeLlama3Renderer(const TemplateTokens& tokens) {
  Llama3 llama3;
  ASSIGN_OR_RETURN(llama3.begin_of_text, tokens.Require("<|begin_of_text|>", kName));
  ASSIGN_OR_RETURN(llama3.start_header, tokens.Require("<|start_header_id|>", kName));
  ASSIGN_OR_RETURN(llama3.end_header, tokens.Require("<|end_header_id|>", kName));
  ASSIGN_OR_RETURN(llama3.end_of_turn, tokens.Require("<|eot_id|>", kName));
  return llama3;
}

}  // namespace coxswain::data
