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

// Text that ends with EOS, by format. With `markup` special tokens that it holds are tokens.
std::optional<std::vector<Segment>> RenderText(const Record& record, const SpecialToken& eos,
                                               bool markup, bool train_history) {
  std::vector<Segment> segments;
  if (const auto* alpaca = std::get_if<AlpacaRecord>(&record)) {
    segments = RenderAlpaca(*alpaca, eos, train_history);
    for (Segment& segment : segments) segment.markup = markup && segment.token < 0;
    return segments;
  }
  if (const auto* text = std::get_if<CompletionRecord>(&record)) {
    if (!text->text.empty()) segments.push_back({.text = text->text, .target = true});
  } else if (const auto* prompt = std::get_if<PromptRecord>(&record)) {
    const ByteRange completion{prompt->prompt.size(),
                               prompt->prompt.size() + prompt->completion.size()};
    segments = CutAtTargets(prompt->prompt + prompt->completion, {&completion, 1});
  } else {
    return std::nullopt;
  }
  for (Segment& segment : segments) segment.markup = markup;
  segments.push_back({.text = eos.text, .token = eos.id, .target = true, .once = true});
  return segments;
}

// Segments as the user wrote them; with `markup` special tokens included.
std::vector<Segment> RenderSegments(const SegmentsRecord& record, bool markup) {
  std::vector<Segment> segments;
  for (const LabelledText& part : record.segments) {
    if (part.text.empty()) continue;
    segments.push_back({.text = part.text, .target = part.target, .markup = markup});
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

bool SpecialTokensCount(const config::DatasetSpec& dataset, bool messages) {
  if (dataset.special_tokens != config::SpecialTokens::kAuto) {
    return dataset.special_tokens == config::SpecialTokens::kContent;
  }
  return !messages && dataset.format != DatasetFormat::kAlpaca;
}

ChatRecord ConversationOf(const Record& record, bool train_history) {
  if (const auto* chat = std::get_if<ChatRecord>(&record)) return *chat;
  const auto& alpaca = std::get<AlpacaRecord>(record);
  ChatRecord chat;
  if (!alpaca.system.empty()) chat.messages.push_back(TextMessage("system", alpaca.system));
  for (const auto& [question, answer] : alpaca.history) {
    chat.messages.push_back(TextMessage("user", question));
    chat.messages.push_back(TextMessage("assistant", answer));
    if (!train_history) chat.messages.back().train = false;
  }
  std::string user = alpaca.instruction;
  if (!alpaca.input.empty()) user += "\n" + alpaca.input;
  chat.messages.push_back(TextMessage("user", user));
  chat.messages.push_back(TextMessage("assistant", alpaca.output));
  return chat;
}

absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::JobSpec& job,
                                                  const config::DatasetSpec& dataset,
                                                  const TemplateTokens& tokens) {
  const bool train_history = job.train_on == config::TrainOn::kAll;
  const bool content = SpecialTokensCount(dataset, /*messages=*/true);
  if (UsesChatTemplate(dataset)) {
    ASSIGN_OR_RETURN(ChatRenderer chat, MakeChatRenderer(job, tokens, content));
    return [chat, train_history](const Record& record) {
      return chat(ConversationOf(record, train_history));
    };
  }
  const bool markup = SpecialTokensCount(dataset, /*messages=*/false);
  if (dataset.format == DatasetFormat::kInputOutput) {
    return [markup](const Record& record) -> absl::StatusOr<std::vector<RenderedDocument>> {
      return OneDocument(RenderSegments(std::get<SegmentsRecord>(record), markup));
    };
  }
  // A prompt and a completion may be messages: that is known by the record.
  std::optional<ChatRenderer> chat;
  if (dataset.format == DatasetFormat::kPromptCompletion) {
    auto made = MakeChatRenderer(job, tokens, content);
    if (made.ok()) chat = *std::move(made);
  }
  const std::string needed_by =
      dataset.format == DatasetFormat::kAlpaca
          ? "prompt_style alpaca"
          : absl::StrCat("format ", dataset.format == DatasetFormat::kCompletion
                                        ? "completion"
                                        : "prompt_completion");
  ASSIGN_OR_RETURN(SpecialToken eos, tokens.RequireEos(needed_by));
  return [eos, chat, markup,
          train_history](const Record& record) -> absl::StatusOr<std::vector<RenderedDocument>> {
    if (std::optional<std::vector<Segment>> text = RenderText(record, eos, markup, train_history)) {
      return OneDocument(*std::move(text));
    }
    if (chat) return (*chat)(std::get<ChatRecord>(record));
    return absl::InvalidArgumentError(
        "prompt and completion are messages, for which the model has no chat template; set "
        "chat_template");
  };
}

}  // namespace coxswain::data
