#include "controller/data/templates/record_renderer.h"

#include <utility>
#include <variant>

#include "common/status_macros.h"
#include "controller/data/templates/alpaca.h"
#include "controller/data/templates/chat_renderer.h"

namespace coxswain::data {

using config::DatasetFormat;
using config::PromptStyle;

bool UsesChatTemplate(const config::DatasetSpec& dataset) {
  return dataset.format == DatasetFormat::kChat ||
         (dataset.format == DatasetFormat::kAlpaca && dataset.prompt_style == PromptStyle::kChat);
}

std::vector<Message> ConversationOf(const Record& record) {
  if (const auto* chat = std::get_if<ChatRecord>(&record)) return chat->messages;
  const auto& alpaca = std::get<AlpacaRecord>(record);
  std::string user = alpaca.instruction;
  if (!alpaca.input.empty()) user += "\n" + alpaca.input;
  return {{Role::kUser, std::move(user)}, {Role::kAssistant, alpaca.output}};
}

absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::DatasetSpec& dataset,
                                                  const std::string& chat_template,
                                                  const TemplateTokens& tokens) {
  if (UsesChatTemplate(dataset)) {
    ASSIGN_OR_RETURN(ChatRenderer chat, MakeChatRenderer(chat_template, tokens));
    return [chat](const Record& record) { return chat(ConversationOf(record)); };
  }
  if (dataset.format == DatasetFormat::kAlpaca) {
    ASSIGN_OR_RETURN(SpecialToken eos, tokens.RequireEos("prompt_style alpaca"));
    return [eos](const Record& record) -> absl::StatusOr<std::vector<Segment>> {
      return RenderAlpaca(std::get<AlpacaRecord>(record), eos);
    };
  }
  ASSIGN_OR_RETURN(SpecialToken eos, tokens.RequireEos("format completion"));
  return [eos](const Record& record) -> absl::StatusOr<std::vector<Segment>> {
    SegmentBuilder out;
    out.Text(std::get<CompletionRecord>(record).text, /*target=*/true);
    out.Token(eos, /*target=*/true);
    return out.Take();
  };
}

}  // namespace coxswain::data
