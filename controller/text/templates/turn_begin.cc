#include "controller/text/templates/turn_begin.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/templates/probe.h"
#include "controller/text/templates/turn_end.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool EndsTagOrWord(char c) { return IsSpace(c) || c == '>' || c == ']' || c == ':'; }

// Not inside of a special token, tag or word.
size_t BackToEdge(std::string_view header, size_t at, const Markers& markers) {
  while (at > 0 && !EndsTagOrWord(header[at - 1])) --at;
  for (const std::string& marker : markers) {
    const size_t first = at < marker.size() ? 0 : at - marker.size() + 1;
    const size_t found = header.find(marker, first);
    if (found < at && at < found + marker.size()) at = found;
  }
  return at;
}

// Bytes of `header`, what stands before the turn's words, that the prompt has too.
size_t SharedHeader(std::string_view prompt, std::string_view header, const Markers& markers) {
  size_t i = 0, at = 0;
  while (i < prompt.size() && at < header.size()) {
    if (prompt[i] == header[at]) {
      ++i;
      ++at;
    } else if (IsSpace(prompt[i])) {
      ++i;
    } else if (IsSpace(header[at])) {
      ++at;
    } else {
      return BackToEdge(header, at, markers);
    }
  }
  return at;
}

// Bytes of what a turn adds before its content, where that is the last that it writes; nothing:
// it is not, or white space that begins the content hides where the header ends.
std::optional<size_t> HeaderOf(const Message& message, std::string_view added,
                               const Markers& markers) {
  const std::string_view content = Strip(message.text);
  std::string_view body = added.substr(0, EndOfLastToken(added, markers));
  body.remove_suffix(TokenAtEnd(body, markers).size());
  while (!body.empty() && (body.back() == '\n' || body.back() == ' ')) body.remove_suffix(1);
  if (content.empty() || content.data() != message.text.data()) return std::nullopt;
  if (message.has_more || !body.ends_with(content)) return std::nullopt;
  return body.size() - content.size();
}

// `through` up to where the turn with other words departs from it; nothing: the template refuses.
std::optional<size_t> Departure(const Turn& turn, size_t last, Message other,
                                std::string_view through) {
  std::vector<Message> messages(turn.messages.begin(),
                                turn.messages.begin() + static_cast<int64_t>(last) + 1);
  messages[turn.index] = std::move(other);
  const auto rendered = turn.chat_template.Render(messages, turn.record, /*prompt=*/false);
  if (!rendered.ok()) return std::nullopt;
  return CommonPrefix(through, rendered->text);
}

// Of a turn that no prompt tells of: without the words, and without what other words would lack.
absl::StatusOr<size_t> BeginWithoutPrompt(const Turn& turn, std::string_view through) {
  const Message& message = turn.messages[turn.index];
  const auto before =
      turn.chat_template.Render(turn.messages.first(turn.index), turn.record, /*prompt=*/false);
  if (before.ok() && through.starts_with(before->text)) {
    const auto header =
        HeaderOf(message, through.substr(before->text.size()), turn.chat_template.markers());
    if (header) return before->text.size() + *header;
  }
  ASSIGN_OR_RETURN(const size_t words, BeginOfWords(turn, turn.index, through));
  return std::min(words, Departure(turn, turn.index, BareProbe(message), through).value_or(words));
}

// Of a turn because of which the template writes earlier ones anew: `through` does not begin with
// `before`, but has before the turn's words what the prompt adds to that.
absl::StatusOr<size_t> BeginBehindPrompt(const Turn& turn, std::string_view before,
                                         std::string_view prompt, std::string_view through) {
  if (prompt.starts_with(before) && prompt.size() > before.size()) {
    const std::string_view added = prompt.substr(before.size());
    ASSIGN_OR_RETURN(const size_t words, BeginOfWords(turn, turn.index, through));
    const size_t at = through.substr(0, words).rfind(added);
    if (at != std::string_view::npos) return at + added.size();
  }
  return BeginWithoutPrompt(turn, through);
}

}  // namespace

absl::StatusOr<size_t> BeginOfWords(const Turn& turn, size_t last, std::string_view through) {
  const Message& message = turn.messages[turn.index];
  std::optional<size_t> begin = Departure(turn, last, Probe(message), through);
  if (!begin) begin = Departure(turn, last, BareProbe(message), through);
  if (begin) return *begin;
  return absl::InvalidArgumentError(absl::StrCat(
      turn.chat_template.name(), " refuses other words in messages[", turn.index, "], so that ",
      "where its own begin cannot be found; use another template, or mark the answers with {% ",
      "generation %}"));
}

absl::StatusOr<size_t> BeginOfTurn(const Turn& turn, std::string_view through) {
  const bool answer = turn.messages[turn.index].role == "assistant";
  if (!answer || !turn.chat_template.has_prompt()) return BeginWithoutPrompt(turn, through);
  absl::StatusOr<jinja::Rendering> prompt =
      turn.chat_template.Render(turn.messages.first(turn.index), turn.record, /*prompt=*/true);
  if (!prompt.ok() && turn.index == 0) return BeginWithoutPrompt(turn, through);
  RETURN_IF_ERROR(prompt.status());
  if (through.starts_with(prompt->text)) return prompt->text.size();
  const Markers& markers = turn.chat_template.markers();
  ASSIGN_OR_RETURN(
      const jinja::Rendering before,
      turn.chat_template.Render(turn.messages.first(turn.index), turn.record, /*prompt=*/false));
  const std::string_view body =
      std::string_view(before.text).substr(0, WithoutTail(before.text, markers));
  if (!through.starts_with(body))
    return BeginBehindPrompt(turn, before.text, prompt->text, through);
  ASSIGN_OR_RETURN(const size_t words, BeginOfWords(turn, turn.index, through));
  return std::max(body.size(), SharedHeader(prompt->text, through.substr(0, words), markers));
}

}  // namespace coxswain::data
