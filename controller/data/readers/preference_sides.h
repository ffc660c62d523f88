// Finds the two completions of a preference record, by their fields or in a ranked list.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_SIDES_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_SIDES_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// A part of a record: a text, a message or a list of messages.
struct RecordPart {
  const nlohmann::ordered_json* value = nullptr;
  std::string name;  // "chosen", "answers[2].answer"
};

struct PreferenceSides {
  RecordPart chosen, rejected;
};

// The parts refer to `record`, an object. Chosen and rejected are named by `fields`, else they are
// `chosen` and `rejected`, or `chosen_response` and `rejected_response`. A record without them has
// a list of completions: by their scores or ranks, else the first one is the best and the last one
// the worst. Scores beside named sides that say the opposite are noted; the names decide.
// InvalidArgument: a side is missing, or nothing tells the completions of a list apart.
absl::StatusOr<PreferenceSides> FindSides(const nlohmann::ordered_json& record,
                                          const config::RecordFields& fields, RecordNotes* notes);

// Whether the record has a chosen or a rejected side by name.
bool NamesSides(const nlohmann::ordered_json& record, const config::RecordFields& fields);

// Names of the fields that FindSides reads; those of the sides first.
std::vector<std::string> SideFields(const config::RecordFields& fields);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_SIDES_H_
