#include "controller/data/templates/record_renderer.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/templates/alpaca.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;
using config::PromptStyle;

// Text that ends with EOS, by format.
std::optional<std::vector<Segment>> RenderText(const Record& record, const SpecialToken& eos) {
  SegmentBuilder out;
  if (const auto* alpaca = std::get_if<AlpacaRecord>(&record)) return RenderAlpaca(*alpaca, eos);
  if (const auto* text = std::get_if<CompletionRecord>(&record)) {
    out.Text(text->text, /*target=*/true);
  } else if (const auto* prompt = std::get_if<PromptRecord>(&record)) {
    const ByteRange completion{prompt->prompt.size(),
                               prompt->prompt.size() + prompt->completion.size()};
    std::vector<Segment> segments =
        CutAtTargets(prompt->prompt + prompt->completion, {&completion, 1});
    segments.push_back({.text = eos.text, .token = eos.id, .target = true});
    return segments;
  } else {
    return std::nullopt;
  }
  out.Token(eos, /*target=*/true);
  return out.Take();
}

// Segments as the user wrote them, special tokens included.
std::vector<Segment> RenderSegments(const SegmentsRecord& record) {
  std::vector<Segment> segments;
  for (const LabelledText& part : record.segments) {
    if (part.text.empty()) continue;
    segments.push_back({.text = part.text, .target = part.target, .markup = true});
  }
  return segments;
}

std::vector<RenderedDocument> OneDocument(std::vector<Segment> segments) {
  std::vector<RenderedDocument> documents(1);
  documents[0].segments = std::move(segments);
  return documents;
}

}  // namespace

bool UsesChatTemplate(const config::DatasetSpec& dataset) {
  return dataset.format == DatasetFormat::kChat || dataset.format == DatasetFormat::kSharegpt ||
         (dataset.format == DatasetFormat::kAlpaca && dataset.prompt_style == PromptStyle::kChat);
}

ChatRecord ConversationOf(const Record& record) {
  if (const auto* chat = std::get_if<ChatRecord>(&record)) return *chat;
  const auto& alpaca = std::get<AlpacaRecord>(record);
  ChatRecord chat;
  if (!alpaca.system.empty()) chat.messages.push_back(TextMessage("system", alpaca.system));
  std::string user = alpaca.instruction;
  if (!alpaca.input.empty()) user += "\n" + alpaca.input;
  chat.messages.push_back(TextMessage("user", user));
  chat.messages.push_back(TextMessage("assistant", alpaca.output));
  return chat;
}

absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::JobSpec& job,
                                                  const config::DatasetSpec& dataset,
                                                  const TemplateTokens& tokens) {
  if (UsesChatTemplate(dataset)) {
    ASSIGN_OR_RETURN(ChatRenderer chat, MakeChatRenderer(job, tokens));
    return [chat](const Record& record) { return chat(ConversationOf(record)); };
  }
  if (dataset.format == DatasetFormat::kInputOutput) {
    return [](const Record& record) -> absl::StatusOr<std::vector<RenderedDocument>> {
      return OneDocument(RenderSegments(std::get<SegmentsRecord>(record)));
    };
  }
  // A prompt and a completion may be messages: that is known by the record.
  std::optional<ChatRenderer> chat;
  if (dataset.format == DatasetFormat::kPromptCompletion) {
    auto made = MakeChatRenderer(job, tokens);
    if (made.ok()) chat = *std::move(made);
  }
  const std::string needed_by =
      dataset.format == DatasetFormat::kAlpaca
          ? "prompt_style alpaca"
          : absl::StrCat("format ", dataset.format == DatasetFormat::kCompletion
                                        ? "completion"
                                        : "prompt_completion");
  ASSIGN_OR_RETURN(SpecialToken eos, tokens.RequireEos(needed_by));
  return [eos, chat](const Record& record) -> absl::StatusOr<std::vector<RenderedDocument>> {
    if (std::optional<std::vector<Segment>> text = RenderText(record, eos)) {
      return OneDocument(*std::move(text));
    }
    if (chat) return (*chat)(std::get<ChatRecord>(record));
    return absl::InvalidArgumentError(
        "prompt and completion are messages, for which the model has no chat template; set "
        "chat_template");
  };
}

}  // namespace coxswain::data
