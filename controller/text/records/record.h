// One record of a dataset, checked and typed.
#ifndef COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_H_
#define COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "controller/text/jinja/values/value.h"

namespace coxswain::data {

struct AlpacaRecord {
  std::string instruction;
  std::string input;  // empty: none
  std::string output;
  std::string system = {};                                        // empty: none
  std::vector<std::pair<std::string, std::string>> history = {};  // earlier questions and answers
};

struct Message {
  std::string role;           // system, user, assistant, tool, or one that only the template knows
  std::string text;           // the content; empty if it is no text
  bool has_more = false;      // it has tool calls or reasoning besides its content
  std::optional<bool> train;  // the record's own choice whether it is a target
  jinja::Value fields;        // for the template: a dict of role, content and all other keys
  // The same, with the arguments of tool calls as the text in the record, for templates that
  // concatenate them with text. None: no call has text.
  jinja::Value text_fields = jinja::Value::None();
};

struct ChatRecord {
  std::vector<Message> messages;
  jinja::Value tools = jinja::Value::None();
  jinja::Value kwargs = jinja::Value::None();  // variables of the template, a dict
};

struct PromptRecord {
  std::string prompt;
  std::string completion;
};

struct CompletionRecord {
  std::string text;
};

struct LabelledText {
  std::string text;
  bool target = false;
};

struct SegmentsRecord {
  std::vector<LabelledText> segments;
};

struct TokenizedRecord {
  std::vector<int32_t> ids;
  std::vector<bool> trained;        // one per id
  std::vector<size_t> begins = {};  // first tokens of its documents, except the first document
};

// A prompt and a completion. Of a conversation the messages of the completion are marked as
// trained, all others as not.
using SideRecord = std::variant<PromptRecord, ChatRecord>;

struct PairRecord {
  SideRecord chosen, rejected;  // of one prompt
  float margin = 0;             // by which chosen is better; 0: the record has none
};

struct LabelledRecord {
  SideRecord side;
  bool desirable = false;
};

// A text or a conversation, and what it was labelled as.
struct ClassifiedRecord {
  using Label = std::variant<bool, int64_t, double, std::string>;  // as in the record

  std::variant<CompletionRecord, ChatRecord> text;
  std::vector<Label> labels;  // one, unless they are a list
  bool is_list = false;
};

using Record =
    std::variant<AlpacaRecord, ChatRecord, PromptRecord, CompletionRecord, SegmentsRecord,
                 TokenizedRecord, PairRecord, LabelledRecord, ClassifiedRecord>;

// Roles that every chat template is assumed to know.
inline constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool", "developer"};

// A message with text only.
Message TextMessage(const std::string& role, const std::string& text);

// Notes about the parts of a record that are ignored or changed. They are counted and shown by
// name.
enum class NoteKind {
  kUnreadField,     // `name` is a field of the record, or of a part of it, that nothing reads
  kUnreadKey,       // `name` is a key of a message that the chat template does not read
  kUnknownRole,     // `name` is a role that neither the format nor the chat template knows
  kNullProperty,    // objects in the field `name` have keys whose value is null
  kSpecialAsText,   // `name` is a special token in the record's text, which stays text
  kTruncated,       // its end was cut off
  kAnswerCut,       // targets were cut off with its end
  kTooLong,         // dropped: above sequence_len
  kNoTarget,        // dropped: no trainable token
  kBadRecord,       // skipped
  kRewritten,       // some turns are not trained: the template rewrites them
  kUnended,         // a trained turn has no end-of-turn token
  kWithoutCalls,    // a turn is trained without its tool calls: the template leaves them out
  kWithoutThought,  // a turn is trained without its reasoning
  kEmptyAnswer,     // only the answer's end is trained
  kSplit,           // cut into pieces: the first token of each is no target
  kEqualSides,      // dropped: chosen and rejected are the same tokens
  kEqualOnceCut,    // dropped: they are, once they are cut to sequence_len
  kScoresDisagree,  // its scores prefer what it calls rejected
  kDuplicate,       // it trains the same tokens as an earlier record; only CheckSource
};

struct RecordNote {
  NoteKind kind;
  std::string name = {};
};

using RecordNotes = std::vector<RecordNote>;

// Does nothing when `notes` is null.
inline void Note(NoteKind kind, std::string name, RecordNotes* notes) {
  if (notes != nullptr) notes->push_back({kind, std::move(name)});
}

// The conversations of a record.

// Of a pair both sides; none where the record is text or tokens. They are parts of `record`.
inline std::vector<const ChatRecord*> ConversationsOf(const Record& record) {
  std::vector<const ChatRecord*> conversations;
  const auto add = [&](const auto& part) {
    if (const auto* chat = std::get_if<ChatRecord>(&part)) conversations.push_back(chat);
  };
  add(record);
  if (const auto* labelled = std::get_if<LabelledRecord>(&record)) add(labelled->side);
  if (const auto* classified = std::get_if<ClassifiedRecord>(&record)) add(classified->text);
  if (const auto* pair = std::get_if<PairRecord>(&record)) {
    add(pair->chosen);
    add(pair->rejected);
  }
  return conversations;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_H_
