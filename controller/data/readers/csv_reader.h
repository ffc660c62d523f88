// Reads records of CSV with a header row. Every row becomes an object of strings.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_CSV_READER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_CSV_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

// By RFC 4180: quoted values may hold separators, line feeds and doubled quotes. In addition lines
// may end in LF alone, and a byte-order mark and blank lines are skipped. The separator is the one
// in the header row outside quotes: a tab, else a comma, else a semicolon. A row with another
// number of fields than the header, or with text after a closing quote, is a bad record.
class CsvReader : public RecordReader {
 public:
  // InvalidArgument "path:line: ...": the header names a column twice or never ends.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            std::unique_ptr<ByteSource> source);

  // InvalidArgument "path:line: ...": a quoted value never ends.
  absl::StatusOr<bool> Next(RawRecord* record) override;
  int64_t consumed_bytes() const override;
  int64_t file_bytes() const override { return source_->file_bytes(); }

 private:
  static constexpr int kEnd = -1;

  CsvReader(std::string path, std::unique_ptr<ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {}

  absl::Status ReadHeader();
  absl::StatusOr<bool> ReadRow();  // into fields_; false at the end of the file
  absl::Status ReadField();
  absl::Status ReadQuoted();
  absl::Status ReadPlain();
  void Append(std::string_view text);
  // The current field. Fields beyond the largest number of columns share the last one.
  std::string& field() { return fields_[std::min(num_fields_, fields_.size()) - 1]; }
  // The next byte without consuming it, or kEnd.
  absl::StatusOr<int> Peek();
  char FindSeparator() const;
  absl::Status Malformed(int64_t line, std::string_view what) const;

  const std::string path_;
  const std::unique_ptr<ByteSource> source_;
  char separator_ = ',';
  std::vector<std::string> names_;  // names of the columns, as JSON text with a colon
  std::string buffer_;
  size_t at_ = 0;           // next byte, in buffer_
  int64_t bytes_read_ = 0;  // from source_, in all
  int64_t line_ = 1;        // line of at_
  int64_t row_line_ = 1;    // first line of the current row
  std::vector<std::string> fields_;
  size_t num_fields_ = 0;  // used elements of fields_
  size_t row_bytes_ = 0;
  bool text_after_quote_ = false;
  bool quoted_ = false;  // a value of the row is quoted
  std::string json_;
  std::string error_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_CSV_READER_H_
