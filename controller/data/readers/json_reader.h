// Reads records of JSON Lines or of one JSON array. The content decides which.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_JSON_READER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

class JsonReader : public RecordReader {
 public:
  // A byte-order mark and blank lines are skipped; lines may end in CR LF. An array is a file whose
  // first character is '['.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            std::unique_ptr<ByteSource> source);

  absl::StatusOr<bool> Next(RawRecord* record) override;
  int64_t consumed_bytes() const override;
  int64_t file_bytes() const override { return source_->file_bytes(); }

 private:
  enum class Layout { kLines, kArray, kArrayEnded };
  // The state of the scan of an array element.
  struct Scan {
    int depth = 0;
    bool in_string = false;
    bool escaped = false;
  };

  JsonReader(std::string path, std::unique_ptr<ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {}

  absl::Status DetectLayout();
  absl::StatusOr<bool> NextLine(RawRecord* record);
  absl::StatusOr<bool> NextElement(RawRecord* record);
  absl::StatusOr<bool> SkipToElement();  // false at the array's end
  absl::Status ExpectNothingMore();
  // Moves at_ to the next byte that is not white space, and counts lines. False at the end of the
  // file.
  absl::StatusOr<bool> SkipBlank();
  bool ScanElement(Scan& scan);  // true: at_ is at the ',' or ']' after the element
  // Reads on; false at the end of the file. Drops the bytes before begin_; when the record has
  // grown too long, also those of the record.
  absl::StatusOr<bool> More();
  RawRecord RecordOf(std::string_view json, int64_t line) const;
  absl::Status Malformed(int64_t line, std::string_view what) const;

  const std::string path_;
  const std::unique_ptr<ByteSource> source_;
  Layout layout_ = Layout::kLines;
  std::string buffer_;
  int64_t bytes_read_ = 0;  // from source_, in all
  size_t begin_ = 0;        // start of the current record, in buffer_
  size_t at_ = 0;           // next byte to read
  int64_t line_ = 1;        // line of at_
  bool too_long_ = false;   // bytes of the current record were dropped
  bool first_element_ = true;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_JSON_READER_H_
