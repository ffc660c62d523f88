#include "controller/text/templates/chat_renderer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/content_guard.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

constexpr char kAnswers[] = "assistant";

// A template, and the markers that content must not forge.
struct GuardedTemplate {
  std::shared_ptr<const ConversationTemplate> chat_template;
  std::shared_ptr<const std::vector<std::string>> guarded;

  static absl::StatusOr<GuardedTemplate> Create(const config::JobSpec& job,
                                                const TemplateTokens& tokens,
                                                bool special_tokens_count) {
    ASSIGN_OR_RETURN(ConversationTemplate parsed, ConversationTemplate::Create(job, tokens));
    std::vector<std::string> guarded;
    if (!special_tokens_count) guarded = GuardedMarkers(parsed, tokens);
    return GuardedTemplate{std::make_shared<const ConversationTemplate>(std::move(parsed)),
                           std::make_shared<const std::vector<std::string>>(std::move(guarded))};
  }
};

RenderedDocument DocumentOf(const ContentGuard& guard, MarkedText text) {
  RenderedDocument document;
  TextMarks marks{guard.Clean(&text.text, &text.targets), {}};
  marks.ranges = std::move(text.targets);
  document.segments.push_back({.text = std::move(text.text), .marks = std::move(marks)});
  document.rule = text.rule;
  document.turns = text.turns;
  return document;
}

}  // namespace

absl::Status CheckConversation(std::span<const Message> messages) {
  if (messages.empty()) return absl::InvalidArgumentError("the conversation has no messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != kAnswers) continue;
    const bool repeated = i > 0 && messages[i - 1].role == kAnswers && !messages[i - 1].has_more;
    if (repeated && !messages[i].has_more) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i - 1, "] and messages[", i, "] are both assistant turns"));
    }
    if (Strip(messages[i].text).empty() && !messages[i].has_more) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i, "] is an empty assistant turn"));
    }
  }
  return absl::OkStatus();
}

std::vector<Segment> CutAtTargets(std::string_view text, std::span<const ByteRange> targets) {
  std::vector<Segment> segments;
  size_t at = 0;
  const auto add = [&](size_t end, bool target, size_t prefix) {
    if (at < end) {
      segments.push_back({.text = std::string(text.substr(at, end - at)),
                          .target = target,
                          .untrained_prefix = prefix});
    }
    at = end;
  };
  for (const ByteRange& target : targets) {
    const bool space = target.begin > at && text[target.begin - 1] == ' ';
    add(target.begin - (space ? 1 : 0), /*target=*/false, 0);
    add(target.end, /*target=*/true, space ? 1 : 0);
  }
  add(text.size(), /*target=*/false, 0);
  return segments;
}

std::vector<std::string> GuardedMarkers(const ConversationTemplate& chat_template,
                                        const TemplateTokens& tokens) {
  std::vector<std::string> guarded = chat_template.markers();
  if (tokens.counted.empty()) return guarded;
  ChatRecord sample;
  sample.messages = {TextMessage("user", "a"), TextMessage(kAnswers, "b")};
  const auto rendered = chat_template.Render(sample.messages, sample, /*prompt=*/false);
  std::erase_if(guarded, [&](const std::string& marker) {
    const bool counted =
        std::find(tokens.counted.begin(), tokens.counted.end(), marker) != tokens.counted.end();
    return counted && rendered.ok() && rendered->text.find(marker) == std::string::npos;
  });
  return guarded;
}

absl::StatusOr<ChatRenderer> MakeChatRenderer(const config::JobSpec& job,
                                              const TemplateTokens& tokens,
                                              bool special_tokens_count) {
  ASSIGN_OR_RETURN(const GuardedTemplate rendering,
                   GuardedTemplate::Create(job, tokens, special_tokens_count));
  const TargetPolicy policy{job.roles_to_train, job.train_on, job.train_on_eos};
  return [rendering, policy](ChatRecord record) -> absl::StatusOr<std::vector<RenderedDocument>> {
    RETURN_IF_ERROR(CheckConversation(record.messages));
    const ContentGuard guard(*rendering.guarded, &record);
    ASSIGN_OR_RETURN(std::vector<MarkedText> texts,
                     FindTargets(*rendering.chat_template, policy, record));
    std::vector<RenderedDocument> documents;
    for (MarkedText& text : texts) documents.push_back(DocumentOf(guard, std::move(text)));
    return documents;
  };
}

absl::StatusOr<ChatRenderer> MakeWholeChatRenderer(const config::JobSpec& job,
                                                   const TemplateTokens& tokens,
                                                   bool special_tokens_count) {
  ASSIGN_OR_RETURN(const GuardedTemplate rendering,
                   GuardedTemplate::Create(job, tokens, special_tokens_count));
  return [rendering](ChatRecord record) -> absl::StatusOr<std::vector<RenderedDocument>> {
    RETURN_IF_ERROR(CheckConversation(record.messages));
    const ContentGuard guard(*rendering.guarded, &record);
    ASSIGN_OR_RETURN(jinja::Rendering rendered,
                     rendering.chat_template->Render(record.messages, record, /*prompt=*/false));
    MarkedText text;
    text.text = std::move(rendered.text);
    text.targets = {{0, text.text.size()}};
    text.rule = TargetRule::kWhole;
    return std::vector<RenderedDocument>{DocumentOf(guard, std::move(text))};
  };
}

}  // namespace coxswain::data
