// Reads records of preference tuning: two completions of one prompt, or one that is labelled.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_PARSER_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// `record` is an object. Its sides are those of preference_sides.h: texts, messages or lists of
// messages. Its prompt is, in this order:
//   lists that begin with a user or system turn   the messages that both sides begin with
//   messages, conversations                       a list of messages, or a text, which is a turn
//   prompt                                        messages, or a text
//   instruction and input, question, input        a text, which is a user turn
//   else, of sides that are texts                 the text that both begin with
// A prompt and sides that are texts stay text, unless `style` is kChat; beside messages a text is a
// turn. All of a side behind its prompt is trained. The margin is the field of that name, a finite
// number, where `fields` names one. InvalidArgument names the wrong field, a
// missing or empty side, or a side without a prompt.
absl::StatusOr<PairRecord> ParsePair(const nlohmann::ordered_json& record,
                                     const config::RecordFields& fields, config::PromptStyle style,
                                     RecordNotes* notes);

// A completion and its label: `label` or `kto_tag`, which is true, false, 1 or 0. The completion is
// the field of that name, `response`, or alpaca's output; else the last message. A record with two
// sides and no label is a PairRecord. Errors as ParsePair.
absl::StatusOr<Record> ParseLabelled(const nlohmann::ordered_json& record,
                                     const config::RecordFields& fields, config::PromptStyle style,
                                     RecordNotes* notes);

// Whether the record has a label that is true or false.
bool HasLabel(const nlohmann::ordered_json& record, const config::RecordFields& fields);

// Names of the fields that ParsePair and ParseLabelled read; those of the sides first.
std::vector<std::string> PairFields(const config::RecordFields& fields);
std::vector<std::string> LabelledFields(const config::RecordFields& fields);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_PARSER_H_
