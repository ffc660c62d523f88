#include "controller/data/templates/alpaca.h"

#include "common/status_macros.h"
#include "controller/data/templates/chat_renderer.h"

namespace coxswain::data {
namespace {

struct AlpacaChat {
  SpecialToken eos;

  absl::StatusOr<std::vector<Segment>> operator()(std::span<const Message> messages) const {
    RETURN_IF_ERROR(CheckConversation(messages));
    if (messages.size() != 2 || messages[0].role != Role::kUser ||
        messages[1].role != Role::kAssistant) {
      return absl::InvalidArgumentError(
          "chat_template alpaca takes one user and one assistant message; use a chat template");
    }
    return RenderAlpaca({messages[0].content, "", messages[1].content}, eos);
  }
};

}  // namespace

std::vector<Segment> RenderAlpaca(const AlpacaRecord& record, const SpecialToken& eos) {
  SegmentBuilder out;
  if (record.input.empty()) {
    out.Text(
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n");
    out.Text(record.instruction);
  } else {
    out.Text(
        "Below is an instruction that describes a task, paired with an input that provides further "
        "context. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\n");
    out.Text(record.instruction);
    out.Text("\n\n### Input:\n");
    out.Text(record.input);
  }
  out.Text("\n\n### Response:\n");
  out.Text(record.output, /*target=*/true);
  out.Token(eos, /*target=*/true);
  return out.Take();
}

absl::StatusOr<ChatRenderer> MakeAlpacaChatRenderer(const TemplateTokens& tokens) {
  AlpacaChat alpaca;
  ASSIGN_OR_RETURN(alpaca.eos, tokens.RequireEos("chat_template alpaca"));
  return alpaca;
}

}  // namespace coxswain::data
