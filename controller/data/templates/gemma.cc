// BOS once, then <start_of_turn>{user or model}\n{content trimmed}<end_of_turn>\n.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/templates/chat_renderer.h"
#include "controller/data/templates/strip.h"

namespace coxswain::data {
namespace {

constexpr char kName[] = "chat_template gemma";

struct Gemma {
  SpecialToken begin, start_of_turn, end_of_turn;

  absl::StatusOr<std::vector<Segment>> operator()(std::span<const Message> messages) const {
    RETURN_IF_ERROR(CheckConversation(messages));
    SegmentBuilder out;
    out.Token(begin);
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role == Role::kSystem) {
        return absl::InvalidArgumentError(
            absl::StrCat("messages[", i, "] is a system message, which gemma does not have"));
      }
      const bool target = messages[i].role == Role::kAssistant;
      out.Token(start_of_turn);
      out.Text(target ? "model\n" : "user\n");
      out.Text(Strip(messages[i].content), target);
      out.Token(end_of_turn, target);
      out.Text("\n");
    }
    return out.Take();
  }
};

}  // namespace

absl::StatusOr<ChatRenderer> MakeGemmaRenderer(const TemplateTokens& tokens) {
  Gemma gemma;
  ASSIGN_OR_RETURN(gemma.begin, tokens.Require("<bos>", kName));
  ASSIGN_OR_RETURN(gemma.start_of_turn, tokens.Require("<start_of_turn>", kName));
  ASSIGN_OR_RETURN(gemma.end_of_turn, tokens.Require("<end_of_turn>", kName));
  return gemma;
}

}  // namespace coxswain::data
