// Reads records of classification: a text or a conversation, and its label.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_CLASSIFICATION_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_CLASSIFICATION_PARSER_H_

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// `record` is an object. Its text is the field `fields.text`; where that is absent, or
// `fields.messages` is named, its messages or conversations (conversation_parser.h). Its label is a
// boolean, a number, a text, or a list of these, which may be written as JSON text, as CSV has it.
// What labels mean, class_labels.h knows. InvalidArgument names the wrong field, or that text or
// label is missing or the text is empty.
absl::StatusOr<ClassifiedRecord> ParseClassified(const nlohmann::ordered_json& record,
                                                 const config::RecordFields& fields,
                                                 RecordNotes* notes);

// Names of the fields that may hold the label, and of all that are read; the text's come first.
std::vector<std::string> ClassLabelFields(const config::RecordFields& fields);
std::vector<std::string> ClassifiedFields(const config::RecordFields& fields);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_CLASSIFICATION_PARSER_H_
