#include "controller/data/templates/turn_targets.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/templates/strip.h"

namespace coxswain::data {
namespace {

using config::TrainOn;
using config::TrainOnEos;

constexpr char kAssistant[] = "assistant";

size_t CommonPrefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

// The special token with which the text ends; empty: with none.
std::string_view TokenAtEnd(std::string_view text, const std::vector<std::string>& markers) {
  std::string_view longest;
  for (const std::string& marker : markers) {
    if (marker.size() > longest.size() && text.ends_with(marker)) longest = marker;
  }
  return longest;
}

// One conversation, up to `messages`.
class Finder {
 public:
  Finder(const ConversationTemplate& chat_template, const TargetPolicy& policy,
         const ChatRecord& record, std::span<const Message> messages, std::vector<bool> trained)
      : template_(chat_template),
        policy_(policy),
        record_(record),
        messages_(messages),
        trained_(std::move(trained)) {}

  absl::StatusOr<MarkedText> Find() {
    ASSIGN_OR_RETURN(jinja::Rendering whole,
                     template_.Render(messages_, record_, /*prompt=*/false));
    found_.text = std::move(whole.text);
    if (!FollowMarks(whole.spans)) RETURN_IF_ERROR(FollowPrefixes());
    ApplyEndTokens();
    return std::move(found_);
  }

 private:
  // False: the template does not mark every assistant turn, or others are to be trained.
  bool FollowMarks(const std::vector<jinja::GenerationSpan>& spans) {
    if (!template_.MarksTurns(record_)) return false;
    std::vector<size_t> assistants;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const bool assistant = messages_[i].role == kAssistant;
      if (assistant) assistants.push_back(i);
      if (trained_[i] && !assistant) return false;
    }
    if (spans.size() != assistants.size()) return false;
    for (size_t k = 0; k < spans.size(); ++k) {
      if (trained_[assistants[k]] && spans[k].begin < spans[k].end) {
        found_.targets.push_back({spans[k].begin, spans[k].end});
      }
    }
    found_.rule = TargetRule::kMarks;
    return true;
  }

  absl::Status FollowPrefixes() {
    found_.rule = TargetRule::kPrefixes;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!trained_[i]) continue;
      ASSIGN_OR_RETURN(const std::optional<ByteRange> range, RangeOf(i));
      if (range && range->begin < range->end) {
        found_.targets.push_back(*range);
      } else if (!range) {
        ++found_.rewritten;
      }
    }
    const bool any = std::find(trained_.begin(), trained_.end(), true) != trained_.end();
    if (any && found_.targets.empty() && found_.rewritten > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(template_.name(),
                       " writes every turn that is to be trained anew when others follow; set ",
                       "train_on: split, which makes a document of each"));
    }
    return absl::OkStatus();
  }

  // What message i adds; nothing: the whole text does not begin with the rendering up to it.
  absl::StatusOr<std::optional<ByteRange>> RangeOf(size_t i) {
    const bool answer = messages_[i].role == kAssistant;
    std::string through;
    if (i + 1 < messages_.size()) {
      ASSIGN_OR_RETURN(jinja::Rendering rendered,
                       template_.Render(messages_.first(i + 1), record_, /*prompt=*/false));
      through = std::move(rendered.text);
      const std::optional<size_t> end = EndWithoutTail(through);
      if (!end) return std::nullopt;
      through.resize(*end);
    } else {
      through = found_.text;
    }
    ASSIGN_OR_RETURN(const size_t begin, BeginOf(i, answer, through));
    const size_t last_token = EndOfLastToken(std::string_view(through).substr(begin));
    return ByteRange{begin, begin + last_token};
  }

  // Where a rendering up to some turn goes on in the whole text, or ends but for a tail; nothing:
  // the whole text does not begin with it. Two special tokens may begin alike.
  std::optional<size_t> EndWithoutTail(std::string_view through) const {
    const size_t common = CommonPrefix(through, found_.text);
    size_t longest = 0;
    for (const std::string& marker : template_.markers())
      longest = std::max(longest, marker.size());
    for (size_t back = 0; back <= std::min(common, longest); ++back) {
      if (IsTail(through.substr(common - back))) return common - back;
    }
    return std::nullopt;
  }

  // What some templates write behind the last turn alone: special tokens and white space.
  bool IsTail(std::string_view text) const {
    while (!text.empty()) {
      const auto& markers = template_.markers();
      const auto marker = std::find_if(markers.begin(), markers.end(),
                                       [&](const std::string& m) { return text.starts_with(m); });
      if (marker == markers.end() && text.front() != '\n' && text.front() != ' ') return false;
      text.remove_prefix(marker == markers.end() ? 1 : marker->size());
    }
    return true;
  }

  absl::StatusOr<size_t> BeginOf(size_t i, bool answer, std::string_view through) {
    absl::StatusOr<jinja::Rendering> rendered =
        template_.Render(messages_.first(i), record_, answer);
    if (i == 0 && (!rendered.ok() || !through.starts_with(rendered->text))) {
      return BeginOfFirst(through);
    }
    ASSIGN_OR_RETURN(const jinja::Rendering prompt, std::move(rendered));
    if (through.starts_with(prompt.text)) {
      const size_t header = answer && template_.has_prompt()
                                ? 0
                                : HeaderOf(messages_[i], through.substr(prompt.text.size()));
      return prompt.text.size() + header;
    }
    // The prompt of an answer may be longer than what a finished one begins with.
    ASSIGN_OR_RETURN(const jinja::Rendering before,
                     template_.Render(messages_.first(i), record_, /*prompt=*/false));
    const size_t common = CommonPrefix(prompt.text, through);
    if (answer && common > before.text.size() && through.starts_with(before.text)) return common;
    return absl::InvalidArgumentError(absl::StrCat(
        template_.name(), " writes what stands before messages[", i, "] anew once it follows, so ",
        "that its tokens cannot be told; use another template, or mark the answers with {% ",
        "generation %}"));
  }

  // Of a turn that nothing stands before: few templates render no messages at all.
  absl::StatusOr<size_t> BeginOfFirst(std::string_view through) {
    const size_t header = HeaderOf(messages_[0], through);
    if (header > 0 || through.starts_with(Strip(messages_[0].text))) return header;
    return absl::InvalidArgumentError(absl::StrCat(
        "messages[0] is to be trained, but ", template_.name(),
        " does not write its content as it ",
        "stands, so that its tokens cannot be told; put a message before it, or set train: false ",
        "in it"));
  }

  // Bytes of what a turn adds before its content, where no prompt says where that begins.
  size_t HeaderOf(const Message& message, std::string_view added) const {
    const std::string_view content = Strip(message.text);
    std::string_view body = added.substr(0, EndOfLastToken(added));
    body.remove_suffix(TokenAtEnd(body, template_.markers()).size());
    while (!body.empty() && (body.back() == '\n' || body.back() == ' ')) body.remove_suffix(1);
    return content.empty() || !body.ends_with(content) ? 0 : body.size() - content.size();
  }

  // Of a turn's text: without the white space behind its last special token; all of it where it
  // ends with none.
  size_t EndOfLastToken(std::string_view turn) const {
    std::string_view trimmed = turn;
    while (!trimmed.empty() && (trimmed.back() == '\n' || trimmed.back() == ' ')) {
      trimmed.remove_suffix(1);
    }
    return TokenAtEnd(trimmed, template_.markers()).empty() ? turn.size() : trimmed.size();
  }

  // Bytes of the end-of-turn token and what the range has behind it; 0: there is no such token.
  size_t TailOf(const ByteRange& range) const {
    const std::string_view turn =
        std::string_view(found_.text).substr(range.begin, range.end - range.begin);
    const size_t end = EndOfLastToken(turn);
    const std::string_view token = TokenAtEnd(turn.substr(0, end), template_.markers());
    return token.empty() ? 0 : turn.size() - end + token.size();
  }

  void ApplyEndTokens() {
    if (policy_.train_on_eos == TrainOnEos::kAll) AddAllEndTokens();
    if (policy_.train_on_eos != TrainOnEos::kNone && policy_.train_on_eos != TrainOnEos::kLast) {
      return;
    }
    for (size_t i = 0; i < found_.targets.size(); ++i) {
      const bool last = i + 1 == found_.targets.size();
      if (last && policy_.train_on_eos == TrainOnEos::kLast) continue;
      found_.targets[i].end -= TailOf(found_.targets[i]);
    }
    std::erase_if(found_.targets, [](const ByteRange& range) { return range.begin == range.end; });
  }

  // Those with which the trained turns end, wherever else they stand.
  void AddAllEndTokens() {
    std::vector<std::string> ends;
    for (const ByteRange& range : found_.targets) {
      const std::string_view turn =
          std::string_view(found_.text).substr(range.begin, range.end - range.begin);
      const std::string token(
          TokenAtEnd(turn.substr(0, EndOfLastToken(turn)), template_.markers()));
      if (!token.empty() && std::find(ends.begin(), ends.end(), token) == ends.end()) {
        ends.push_back(token);
      }
    }
    std::vector<ByteRange> all = found_.targets;
    for (const std::string& token : ends) {
      for (size_t at = 0; (at = found_.text.find(token, at)) != std::string::npos; ++at) {
        const bool inside = std::any_of(
            found_.targets.begin(), found_.targets.end(),
            [&](const ByteRange& range) { return range.begin <= at && at < range.end; });
        if (!inside) all.push_back({at, at + token.size()});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    found_.targets = std::move(all);
  }

  const ConversationTemplate& template_;
  const TargetPolicy& policy_;
  const ChatRecord& record_;
  const std::span<const Message> messages_;
  const std::vector<bool> trained_;
  MarkedText found_;
};

std::vector<bool> TrainedMessages(const TargetPolicy& policy, std::span<const Message> messages) {
  std::vector<bool> trained;
  for (const Message& message : messages) {
    const bool role =
        std::find(policy.roles.begin(), policy.roles.end(), message.role) != policy.roles.end();
    trained.push_back(message.train.value_or(role));
  }
  if (policy.train_on != TrainOn::kLast) return trained;
  const auto last = std::find(trained.rbegin(), trained.rend(), true);
  if (last != trained.rend()) std::fill(last + 1, trained.rend(), false);
  return trained;
}

}  // namespace

absl::StatusOr<std::vector<MarkedText>> FindTargets(const ConversationTemplate& chat_template,
                                                    const TargetPolicy& policy,
                                                    const ChatRecord& record) {
  const std::span<const Message> messages = record.messages;
  const std::vector<bool> trained = TrainedMessages(policy, messages);
  std::vector<MarkedText> texts;
  if (policy.train_on != TrainOn::kSplit) {
    ASSIGN_OR_RETURN(MarkedText text,
                     Finder(chat_template, policy, record, messages, trained).Find());
    texts.push_back(std::move(text));
    return texts;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!trained[i]) continue;
    std::vector<bool> only(i + 1, false);
    only[i] = true;
    ASSIGN_OR_RETURN(
        MarkedText text,
        Finder(chat_template, policy, record, messages.first(i + 1), std::move(only)).Find());
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace coxswain::data
