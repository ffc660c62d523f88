// Splits a dataset file into records, as a stream. The content decides its kind (file_kind.h).
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_RECORD_READER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

// Longer records are not kept, so that the reader's memory stays below about twice this.
inline constexpr size_t kMaxRecordBytes = size_t{32} << 20;

struct RawRecord {
  std::string_view json;   // valid until the next call of Next; not parsed yet
  std::string_view path;   // path of its file; valid as long as the reader
  int64_t line = 0;        // its first line, from 1; for Parquet and Arrow its row
  std::string_view error;  // why it cannot be read; then json is empty. Valid as long as json
};

// A text of RawRecord::error.
inline constexpr std::string_view kTooLong = "the record is longer than 32 MiB";

// A column to read of a Parquet or Arrow file.
struct Column {
  std::string name;
  bool needed = true;  // false: left out if its type has no form in JSON
};

// A column that is not decoded, or a field within a column ("messages.picture").
struct LeftOutColumn {
  std::string name;
  std::string type;  // empty: not asked for; else its type, which has no form in JSON
};

class RecordReader {
 public:
  // `columns`: the columns of a Parquet or Arrow file to decode. If none is given or the file has
  // none of them, every column that can be decoded is. Other kinds give all fields. Errors as
  // ByteSource::Open; FailedPrecondition when the library that reads Parquet is not installed.
  // Defined in open_record_reader.cc, which knows the kinds.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(
      const std::string& path, const std::vector<Column>& columns = {});
  virtual ~RecordReader() = default;

  // False at the end. InvalidArgument "path:line: ...": the file is not well-formed between
  // records, so that skipping records does not help. DataLoss: the file is damaged or cut short.
  virtual absl::StatusOr<bool> Next(RawRecord* record) = 0;

  // Bytes of the file used by the records so far (an estimate for a compressed file), and in all.
  virtual int64_t consumed_bytes() const = 0;
  virtual int64_t file_bytes() const = 0;
  virtual std::vector<LeftOutColumn> left_out() const { return {}; }
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_READER_H_
