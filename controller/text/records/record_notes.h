// Notes about the parts of a record that are ignored or changed. They are counted and shown by
// name.
#ifndef COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_NOTES_H_
#define COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_NOTES_H_

#include <string>
#include <utility>
#include <vector>

namespace coxswain::data {

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

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_RECORDS_RECORD_NOTES_H_
