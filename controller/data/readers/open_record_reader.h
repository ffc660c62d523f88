// Opens the reader of a file; plain text is read here.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_OPEN_RECORD_READER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_OPEN_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

// Reads records of plain text. Every line that is not blank, stripped of blanks at its ends,
// becomes an object with the field "text".
class TextReader : public RecordReader {
 public:
  // `lines` returns each line as the JSON of a record.
  explicit TextReader(std::unique_ptr<RecordReader> lines) : lines_(std::move(lines)) {}

  absl::StatusOr<bool> Next(RawRecord* record) override;
  int64_t consumed_bytes() const override { return lines_->consumed_bytes(); }
  int64_t file_bytes() const override { return lines_->file_bytes(); }

 private:
  const std::unique_ptr<RecordReader> lines_;
  std::string json_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_OPEN_RECORD_READER_H_
