#include "controller/text/templates/said_turns.h"

#include <algorithm>

#include "controller/text/templates/turn_begin.h"
#include "controller/text/templates/turn_end.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

size_t CommonSuffix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
                             a.rbegin());
}

// The place, or where the tag begins in which it lies: a thought's and the words' begin alike.
size_t BeforeOpenTag(std::string_view text, size_t place) {
  const size_t open = text.substr(0, place).rfind('<');
  if (open == std::string_view::npos) return place;
  return text.substr(open, place - open).find('>') == std::string_view::npos ? open : place;
}

// What a content says behind the last tag that it closes, as a thought's.
std::string_view BehindThought(std::string_view content) {
  const size_t closed = content.rfind("</");
  const size_t end = closed == std::string_view::npos ? closed : content.find('>', closed);
  return Strip(end == std::string_view::npos ? content : content.substr(end + 1));
}

// One conversation.
class Joiner {
 public:
  Joiner(const ConversationTemplate& chat_template, const ChatRecord& record,
         std::span<const Message> messages, std::string_view whole)
      : template_(chat_template), record_(record), messages_(messages), whole_(whole) {}

  std::optional<SaidText> Join(std::span<const SaidTurn> turns) {
    for (size_t i = 0; i < turns.size(); ++i) {
      const SaidTurn& turn = turns[i];
      const SaidTurn* earlier = i == 0 ? nullptr : &turns[i - 1];
      const auto begin = Append(earlier, turn.index, turn.through);
      if (!begin) return std::nullopt;
      const size_t context = ContextOf(turn);
      if (context < *begin ||
          !IsWrittenToo(std::string_view(turn.through).substr(*begin, context - *begin), i == 0)) {
        return std::nullopt;
      }
      // Append put through[begin] at the place where the text ended.
      joined_.begins.push_back(joined_.text.size() - turn.through.size() + turn.begin);
    }
    const SaidTurn& last = turns.back();
    if (last.index + 1 < messages_.size() && !Append(&last, messages_.size() - 1, whole_)) {
      return std::nullopt;
    }
    return std::move(joined_);
  }

 private:
  // Appends what `through`, the rendering up to messages[index], has behind the words of the
  // earlier turn, and returns where that begins in it.
  std::optional<size_t> Append(const SaidTurn* earlier, size_t index, std::string_view through) {
    if (earlier == nullptr) {
      joined_.text = through;
      return 0;
    }
    const std::string_view said =
        std::string_view(earlier->through)
            .substr(0, WithoutTail(earlier->through, template_.markers()));
    const std::optional<size_t> end = EndOfWords(*earlier, said, index, through);
    if (!end) return std::nullopt;
    joined_.text.resize(joined_.text.size() - (earlier->through.size() - said.size()));
    joined_.text.append(through.substr(*end));
    return end;
  }

  // Where in `through` the earlier turn's words end: before the words of the message behind it,
  // where the most of how the turn ended when it was said ends again, and a special token follows
  // if one did then; of two such places the first.
  std::optional<size_t> EndOfWords(const SaidTurn& earlier, std::string_view said, size_t index,
                                   std::string_view through) {
    const Turn next = {template_, record_, messages_, earlier.index + 1};
    const auto limit = BeginOfWords(next, index, through);
    if (!limit.ok()) return std::nullopt;
    const size_t first =
        BeforeOpenTag(through, std::min(earlier.begin, CommonPrefix(said, through)));
    const bool ended = BeginsWithToken(std::string_view(earlier.through).substr(said.size()));
    size_t best = 0, longest = 0;
    for (size_t end = *limit; end > first; --end) {
      if (said.empty() || through[end - 1] != said.back()) continue;
      if (ended && !BeginsWithToken(through.substr(end))) continue;
      if (!TokenAtEnd(through.substr(0, end), template_.markers()).empty()) continue;
      const size_t shared = CommonSuffix(through.substr(first, end - first), said);
      if (shared >= longest) {
        longest = shared;
        best = end;
      }
    }
    const std::string_view words = BehindThought(messages_[earlier.index].text);
    const size_t needed = said.ends_with(words) ? words.size() : 0;
    if (longest < std::max(needed, size_t{1})) return std::nullopt;
    return best;
  }

  // White space apart.
  bool BeginsWithToken(std::string_view text) const {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    return !TokenAtBegin(text, template_.markers()).empty();
  }

  // Bytes of what stands before the turn, its prompt apart. Where the turn itself has the template
  // write earlier ones anew, those before the prompt that it begins with.
  size_t ContextOf(const SaidTurn& turn) const {
    const std::span<const Message> given = messages_.first(turn.index);
    const auto before = template_.Render(given, record_, /*prompt=*/false);
    if (!before.ok()) return turn.begin;
    const size_t body = WithoutTail(before->text, template_.markers());
    const size_t common = CommonPrefix(before->text, turn.through);
    if (common >= body) return body;
    const auto asked = template_.Render(given, record_, /*prompt=*/true);
    if (asked.ok() && asked->text.starts_with(before->text)) {
      const std::string_view prompt = std::string_view(asked->text).substr(before->text.size());
      const std::string_view header = std::string_view(turn.through).substr(0, turn.begin);
      if (header.ends_with(prompt)) return turn.begin - prompt.size();
    }
    return common;
  }

  // Whether the whole text has the stretch too, behind those that were asked for before.
  bool IsWrittenToo(std::string_view stretch, bool begins) {
    const size_t at = begins ? (whole_.starts_with(stretch) ? 0 : std::string_view::npos)
                             : whole_.find(stretch, cursor_);
    if (at == std::string_view::npos) return false;
    cursor_ = at + stretch.size();
    return true;
  }

  const ConversationTemplate& template_;
  const ChatRecord& record_;
  const std::span<const Message> messages_;
  const std::string_view whole_;
  SaidText joined_;
  size_t cursor_ = 0;
};

}  // namespace

std::optional<SaidText> JoinSaidTurns(const ConversationTemplate& chat_template,
                                      const ChatRecord& record, std::span<const Message> messages,
                                      std::span<const SaidTurn> turns, std::string_view whole) {
  return Joiner(chat_template, record, messages, whole).Join(turns);
}

}  // namespace coxswain::data
