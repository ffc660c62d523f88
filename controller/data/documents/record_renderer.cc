#include "controller/data/documents/record_renderer.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/readers/detect_format.h"
#include "controller/data/readers/fields_read.h"
#include "controller/text/templates/named_templates.h"

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

// All of a text is read, and no EOS is put behind it.
class ClassifiedRenderer {
 public:
  // `chat`: nothing where there is no template.
  ClassifiedRenderer(std::optional<ChatRenderer> chat, bool markup)
      : chat_(std::move(chat)), markup_(markup) {}

  absl::StatusOr<std::vector<RenderedDocument>> operator()(const Record& record) const {
    const auto& text = std::get<ClassifiedRecord>(record).text;
    if (const auto* plain = std::get_if<CompletionRecord>(&text)) {
      return OneDocument({{.text = plain->text, .target = true, .markup = markup_}});
    }
    if (chat_) return (*chat_)(std::get<ChatRecord>(text));
    return absl::InvalidArgumentError(
        "the record holds messages, for which the model has no chat template; set chat_template");
  }

 private:
  std::optional<ChatRenderer> chat_;
  bool markup_;
};

// Renders records that are text, or messages: that is known by the record alone.
class TextOrChatRenderer {
 public:
  // `chat`: nothing where there is no template.
  TextOrChatRenderer(SpecialToken eos, std::optional<ChatRenderer> chat, bool markup,
                     bool train_history)
      : eos_(std::move(eos)),
        chat_(std::move(chat)),
        markup_(markup),
        train_history_(train_history) {}

  absl::StatusOr<std::vector<RenderedDocument>> operator()(const Record& record) const {
    if (const auto* labelled = std::get_if<LabelledRecord>(&record)) {
      return RenderSide(labelled->side);
    }
    if (const auto* pair = std::get_if<PairRecord>(&record)) return RenderPair(*pair);
    if (auto text = RenderText(record, eos_, markup_, train_history_)) {
      return OneDocument(*std::move(text));
    }
    if (chat_) return (*chat_)(std::get<ChatRecord>(record));
    return absl::InvalidArgumentError(
        "prompt and completion are messages, for which the model has no chat template; set "
        "chat_template");
  }

 private:
  absl::StatusOr<std::vector<RenderedDocument>> RenderSide(const SideRecord& side) const {
    return std::visit([this](const auto& one) { return (*this)(Record(one)); }, side);
  }

  absl::StatusOr<std::vector<RenderedDocument>> RenderPair(const PairRecord& pair) const {
    std::vector<RenderedDocument> both;
    for (const auto& [name, side] :
         {std::pair("chosen", &pair.chosen), std::pair("rejected", &pair.rejected)}) {
      absl::StatusOr<std::vector<RenderedDocument>> documents = RenderSide(*side);
      if (!documents.ok()) {
        return absl::Status(documents.status().code(),
                            absl::StrCat(name, ": ", std::string(documents.status().message())));
      }
      both.push_back(std::move(documents->front()));
    }
    return both;
  }

  SpecialToken eos_;
  std::optional<ChatRenderer> chat_;
  bool markup_, train_history_;
};

}  // namespace

bool UsesChatTemplate(const config::DatasetSpec& dataset) {
  return dataset.format == DatasetFormat::kChat || dataset.format == DatasetFormat::kSharegpt ||
         (dataset.format == DatasetFormat::kAlpaca && dataset.prompt_style == PromptStyle::kChat);
}

bool MayUseChatTemplate(const config::DatasetSpec& dataset) {
  return dataset.format == DatasetFormat::kPromptCompletion ||
         dataset.format == DatasetFormat::kClassification || IsPreferenceFormat(dataset.format);
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
  if (dataset.format == DatasetFormat::kClassification) {
    auto whole = MakeWholeChatRenderer(job, tokens, content);
    return ClassifiedRenderer(whole.ok() ? std::optional(*std::move(whole)) : std::nullopt, markup);
  }
  std::optional<ChatRenderer> chat;
  if (MayUseChatTemplate(dataset)) {
    auto made = MakeChatRenderer(job, tokens, content);
    if (made.ok()) chat = *std::move(made);
  }
  const std::string needed_by =
      dataset.format == DatasetFormat::kAlpaca
          ? "prompt_style alpaca"
          : absl::StrCat("format ", std::string(FormatName(dataset.format)));
  ASSIGN_OR_RETURN(SpecialToken eos, tokens.RequireEos(needed_by));
  return TextOrChatRenderer(std::move(eos), std::move(chat), markup, train_history);
}

}  // namespace coxswain::data
