// Parses the JSON text of one record.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// Use a parser from one thread only: it keeps the JSON parser's memory.
class RecordParser {
 public:
  // `format` must not be kAuto: DetectFormat (detect_format.h) resolves that. `style` is read by
  // the formats of preferences.
  RecordParser(config::DatasetFormat format, config::RecordFields fields,
               config::PromptStyle style = config::PromptStyle::kAlpaca);
  explicit RecordParser(const config::DatasetSpec& dataset)
      : RecordParser(dataset.format, dataset.fields, dataset.prompt_style) {}
  ~RecordParser();

  // InvalidArgument names the fault, without path and line. The whole text is validated. Fields, by
  // their default names:
  //   alpaca             instruction, output: strings; input, system: a string, null or absent;
  //                      history: a list of pairs of strings, null or absent
  //   chat, sharegpt     conversation_parser.h
  //   prompt_completion  prompt, completion: both strings, or both lists of messages
  //   completion         text: a string
  //   input_output       segments: [{text: a string, label: true or false}]
  //   tokenized          tokenized_parser.h
  //   preference, unpaired_preference  preference_parser.h
  //   classification     classification_parser.h
  // Other fields that are not empty are added to `notes`, which may be null. Unimplemented: a
  // record of preference tuning in another format (preference.h).
  absl::StatusOr<Record> Parse(std::string_view json, RecordNotes* notes = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_
