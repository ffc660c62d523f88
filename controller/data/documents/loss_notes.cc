#include "controller/data/documents/loss_notes.h"

#include <utility>

namespace coxswain::data {
namespace {

void NoteTurns(const TurnCounts& turns, RecordNotes* notes) {
  const std::pair<NoteKind, int64_t> all[] = {{NoteKind::kRewritten, turns.rewritten},
                                              {NoteKind::kUnended, turns.unended},
                                              {NoteKind::kWithoutCalls, turns.without_calls},
                                              {NoteKind::kWithoutThought, turns.without_thought}};
  for (const auto& [kind, count] : all) {
    notes->insert(notes->end(), static_cast<size_t>(count), {.kind = kind});
  }
}

}  // namespace

void NoteLosses(const std::vector<EncodedDocument>& documents, RecordNotes* notes) {
  bool split = false;
  for (const EncodedDocument& document : documents) {
    NoteTurns(document.turns, notes);
    if (document.answer_cut) notes->push_back({NoteKind::kAnswerCut});
    if (document.outcome == Outcome::kTruncated) notes->push_back({NoteKind::kTruncated});
    if (document.outcome == Outcome::kTooLong) notes->push_back({NoteKind::kTooLong});
    if (document.outcome == Outcome::kNoTarget) notes->push_back({NoteKind::kNoTarget});
    if (document.role == DocumentRole::kRejected) continue;  // told of its pair
    if (document.outcome == Outcome::kEqual) notes->push_back({NoteKind::kEqualSides});
    if (document.outcome == Outcome::kEqualOnceCut) notes->push_back({NoteKind::kEqualOnceCut});
    split |= document.outcome == Outcome::kSplit;
  }
  if (split) notes->push_back({NoteKind::kSplit});
}

}  // namespace coxswain::data
