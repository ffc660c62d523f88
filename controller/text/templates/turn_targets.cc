#include "controller/text/templates/turn_targets.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/templates/said_turns.h"
#include "controller/text/templates/turn_begin.h"
#include "controller/text/templates/turn_end.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

using config::TrainOn;
using config::TrainOnEos;

constexpr char kAssistant[] = "assistant";

// Nothing of the text is left beside markers, tags (an empty thought) and white space.
bool IsEmptyTurn(std::string_view turn, const Markers& markers) {
  std::string_view rest = turn.substr(0, WithoutTail(turn, markers));
  while (!(rest = Strip(rest)).empty()) {
    const size_t token = TokenAtBegin(rest, markers).size();
    const size_t tag = rest[0] == '<' ? rest.find('>') + 1 : 0;  // 0: no tag
    if (token == 0 && tag == 0) return false;
    rest.remove_prefix(token > 0 ? token : tag);
  }
  return true;
}

bool HasText(std::string_view turn, const jinja::Value* value) {
  return value == nullptr || !value->is_string() ||
         turn.find(Strip(value->text())) != std::string_view::npos;
}

const jinja::Value* Thought(const Message& message) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const jinja::Value* value = message.fields.dict().Find(name);
    if (value != nullptr && value->is_string() && !Strip(value->text()).empty()) return value;
  }
  return nullptr;
}

bool HasThought(std::string_view turn, const Message& message) {
  return HasText(turn, Thought(message));
}

struct Calls {
  size_t made = 0, written = 0;
};

// Calls of a message, and those of which the function's name stands in its turn.
Calls CallsOf(std::string_view turn, const Message& message) {
  Calls found;
  const jinja::Value* calls = message.fields.dict().Find("tool_calls");
  if (calls == nullptr || !calls->is(jinja::Kind::kList)) return found;
  for (const jinja::Value& call : calls->list().items) {
    const jinja::Value* function =
        call.is(jinja::Kind::kDict) ? call.dict().Find("function") : nullptr;
    if (function == nullptr || !function->is(jinja::Kind::kDict)) continue;
    ++found.made;
    found.written += HasText(turn, function->dict().Find("name")) ? 1 : 0;
  }
  return found;
}

// Of a message without content: a call or its reasoning.
bool WritesAny(std::string_view turn, const Message& message) {
  return CallsOf(turn, message).written > 0 ||
         (Thought(message) != nullptr && HasThought(turn, message));
}

std::string_view BehindLastMarker(std::string_view turn, const Markers& markers) {
  size_t end = 0;
  for (const std::string& marker : markers) {
    const size_t at = turn.rfind(marker);
    if (at != std::string_view::npos) end = std::max(end, at + marker.size());
  }
  return turn.substr(end);
}

// The marked stretches, `turns` of them where the template marks each turn once: without empty
// ones, or those that touch put together.
std::vector<ByteRange> Stretches(const std::vector<jinja::GenerationSpan>& spans, size_t turns) {
  std::vector<ByteRange> each, joined;
  for (const jinja::GenerationSpan& span : spans) {
    if (span.begin == span.end) continue;
    each.push_back({span.begin, span.end});
    if (!joined.empty() && joined.back().end == span.begin) {
      joined.back().end = span.end;
    } else {
      joined.push_back(each.back());
    }
  }
  return each.size() == turns ? each : joined;
}

// One conversation, up to `messages`.
class Finder {
 public:
  Finder(const ConversationTemplate& chat_template, const TargetPolicy& policy,
         const ChatRecord& record, std::span<const Message> messages, std::vector<bool> trained)
      : template_(chat_template),
        markers_(chat_template.markers()),
        policy_(policy),
        record_(record),
        messages_(messages),
        trained_(std::move(trained)) {}

  absl::StatusOr<MarkedText> Find() {
    ASSIGN_OR_RETURN(jinja::Rendering whole,
                     template_.Render(messages_, record_, /*prompt=*/false));
    found_.text = std::move(whole.text);
    if (!FollowMarks(whole.spans)) RETURN_IF_ERROR(FollowPrefixes());
    RETURN_IF_ERROR(Judge());
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
    const std::vector<ByteRange> stretches = Stretches(spans, assistants.size());
    if (stretches.size() != assistants.size()) return false;
    for (size_t k = 0; k < stretches.size(); ++k) {
      if (trained_[assistants[k]]) Add(assistants[k], stretches[k].begin, stretches[k].end);
    }
    found_.rule = TargetRule::kMarks;
    return true;
  }

  absl::Status FollowPrefixes() {
    found_.rule = TargetRule::kPrefixes;
    std::vector<SaidTurn> turns;
    std::vector<std::optional<size_t>> ends;  // in the whole text; nothing: it is written anew
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!trained_[i]) continue;
      SaidTurn turn{.index = i, .through = found_.text};
      ends.push_back(found_.text.size());
      if (i + 1 < messages_.size()) {
        ASSIGN_OR_RETURN(jinja::Rendering rendered,
                         template_.Render(messages_.first(i + 1), record_, /*prompt=*/false));
        turn.through = std::move(rendered.text);
        ends.back() = EndWithoutTail(turn.through, found_.text);
      }
      const std::string_view said =
          std::string_view(turn.through).substr(0, ends.back().value_or(turn.through.size()));
      ASSIGN_OR_RETURN(turn.begin, BeginOfTurn({template_, record_, messages_, i}, said));
      turns.push_back(std::move(turn));
    }
    const bool anew = std::find(ends.begin(), ends.end(), std::nullopt) != ends.end();
    if (anew && AddAsSaid(turns)) return absl::OkStatus();
    for (size_t k = 0; k < turns.size(); ++k) {
      if (ends[k]) Add(turns[k].index, turns[k].begin, *ends[k]);
      found_.turns.rewritten += !ends[k];
    }
    if (!turns.empty() && found_.turns.rewritten == static_cast<int64_t>(turns.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(template_.name(), " rewrites every trained turn when others follow; set ",
                       "train_on: split, which makes one document of each"));
    }
    return absl::OkStatus();
  }

  // False: the turns cannot be put together as they were said.
  bool AddAsSaid(const std::vector<SaidTurn>& turns) {
    std::optional<SaidText> said = JoinSaidTurns(template_, record_, messages_, turns, found_.text);
    if (!said) return false;
    found_.text = std::move(said->text);
    for (size_t k = 0; k < turns.size(); ++k) {
      const std::string_view turn = std::string_view(turns[k].through).substr(turns[k].begin);
      const std::string_view text = std::string_view(found_.text).substr(said->begins[k]);
      const size_t size = EndWithoutTail(turn, text).value_or(CommonPrefix(turn, text));
      Add(turns[k].index, said->begins[k], said->begins[k] + size);
    }
    found_.turns.as_said = static_cast<int64_t>(turns.size()) - 1;
    return true;
  }

  // A turn's range, up to its end-of-turn token.
  void Add(size_t index, size_t begin, size_t end) {
    const std::string_view text = found_.text;
    if (found_.rule == TargetRule::kPrefixes) {
      end = begin + EndOfLastToken(text.substr(begin, end - begin), markers_);
    }
    if (TailOfTurn(text.substr(begin, end - begin), markers_) == 0) {
      end = std::max(end, EndBehind(index, {begin, end}));
    }
    indices_.push_back(index);
    found_.targets.push_back({begin, end});
  }

  // Where the end-of-turn token that stands behind a turn's words ends; 0: none does.
  size_t EndBehind(size_t index, ByteRange words) const {
    std::string_view behind = std::string_view(found_.text).substr(words.end);
    while (!behind.empty() && (behind.front() == '\n' || behind.front() == ' ')) {
      behind.remove_prefix(1);
    }
    const std::string_view token = TokenAtBegin(behind, markers_);
    if (token.empty() || !EndsTurn(index, words, token)) return 0;
    return found_.text.size() - behind.size() + token.size();
  }

  // Whether the token that stands behind a turn is its end, not only the next turn's begin: the
  // model ends with it, nothing follows, the turn ends with it as the last one too, or does so
  // where a prompt follows, when alone it ends with another.
  bool EndsTurn(size_t index, ByteRange words, std::string_view token) const {
    if (index + 1 == messages_.size()) return true;
    const auto& ends = template_.ends();
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) return true;
    const auto through = template_.Render(messages_.first(index + 1), record_, /*prompt=*/false);
    if (!through.ok()) return false;
    const std::string_view last =
        std::string_view(through->text).substr(0, EndOfLastToken(through->text, markers_));
    if (TokenAtEnd(last, markers_).empty()) return false;
    if (TokenAtEnd(last, markers_) == token) return true;
    const auto asked = template_.Render(messages_.first(index + 1), record_, /*prompt=*/true);
    if (!asked.ok()) return false;
    // It may lack the turn's thoughts.
    const std::string_view said = BehindLastMarker(
        std::string_view(found_.text).substr(words.begin, words.end - words.begin), markers_);
    return !said.empty() && asked->text.find(std::string(said).append(token)) != std::string::npos;
  }

  // Where a rendering up to some turn goes on in `whole`, or ends but for a tail; nothing: `whole`
  // does not begin with it. Two special tokens may begin alike.
  std::optional<size_t> EndWithoutTail(std::string_view through, std::string_view whole) const {
    const size_t common = CommonPrefix(through, whole);
    size_t longest = 0;
    for (const std::string& marker : markers_) longest = std::max(longest, marker.size());
    for (size_t back = 0; back <= std::min(common, longest); ++back) {
      if (IsTail(through.substr(common - back), markers_)) return common - back;
    }
    return std::nullopt;
  }

  // What the template writes of each turn that is trained.
  absl::Status Judge() {
    for (size_t k = 0; k < indices_.size(); ++k) {
      const ByteRange& range = found_.targets[k];
      const std::string_view turn =
          std::string_view(found_.text).substr(range.begin, range.end - range.begin);
      const Message& message = messages_[indices_[k]];
      const Calls called = CallsOf(turn, message);
      const bool calls = called.written == called.made;
      const bool thought = HasThought(turn, message);
      const std::string_view content = Strip(message.text);
      const bool own = !content.empty() && turn.find(content) != std::string_view::npos;
      const bool none = content.empty() && !(calls && thought) && !WritesAny(turn, message);
      if (none || (!own && IsEmptyTurn(turn, markers_))) {
        return absl::InvalidArgumentError(absl::StrCat(
            template_.name(), " writes nothing of messages[", indices_[k], "]",
            !calls     ? ", whose tool_calls it does not know"
            : !thought ? ", whose reasoning it leaves out"
                       : "",
            ", so that its end alone would be trained; use another template, or set train: false ",
            "in it"));
      }
      found_.turns.without_calls += !calls;
      found_.turns.without_thought += !thought;
      const bool last = k + 1 == indices_.size();
      const bool ends_count = policy_.train_on_eos == TrainOnEos::kTurn ||
                              policy_.train_on_eos == TrainOnEos::kAll ||
                              (policy_.train_on_eos == TrainOnEos::kLast && last);
      found_.turns.unended += ends_count && TailOfTurn(turn, markers_) == 0;
    }
    return absl::OkStatus();
  }

  void ApplyEndTokens() {
    if (policy_.train_on_eos == TrainOnEos::kAll) AddAllEndTokens();
    if (policy_.train_on_eos != TrainOnEos::kNone && policy_.train_on_eos != TrainOnEos::kLast) {
      return;
    }
    for (size_t i = 0; i < found_.targets.size(); ++i) {
      ByteRange& range = found_.targets[i];
      const bool last = i + 1 == found_.targets.size();
      if (last && policy_.train_on_eos == TrainOnEos::kLast) continue;
      range.end -= TailOfTurn(
          std::string_view(found_.text).substr(range.begin, range.end - range.begin), markers_);
    }
    std::erase_if(found_.targets, [](const ByteRange& range) { return range.begin == range.end; });
  }

  // Those with which the trained turns end, wherever else they stand.
  void AddAllEndTokens() {
    std::vector<std::string> ends;
    for (const ByteRange& range : found_.targets) {
      const std::string_view turn =
          std::string_view(found_.text).substr(range.begin, range.end - range.begin);
      const std::string token(TokenAtEnd(turn.substr(0, EndOfLastToken(turn, markers_)), markers_));
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
  const Markers& markers_;
  const TargetPolicy& policy_;
  const ChatRecord& record_;
  const std::span<const Message> messages_;
  const std::vector<bool> trained_;
  std::vector<size_t> indices_;  // messages whose ranges the targets are, as long as none is added
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
