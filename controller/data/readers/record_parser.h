// JSON text of one record -> Record.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"

namespace coxswain::data {

// A parser is of one thread, as it keeps the JSON parser's memory.
class RecordParser {
 public:
  explicit RecordParser(config::DatasetFormat format);
  ~RecordParser();

  // InvalidArgument says what is wrong, without path and line. The whole text is validated. Fields:
  //   alpaca      instruction, output: strings; input: a string, null or absent
  //   chat        messages: an array of {role: system | user | assistant, content: string}
  //   completion  text: a string
  // Other fields are ignored.
  absl::StatusOr<Record> Parse(std::string_view json);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_PARSER_H_
