// Splits a dataset file into records, as a stream. Its kind is told by content (file_kind.h).
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

// A longer record is not kept: the reader's memory stays below about twice this.
inline constexpr size_t kMaxRecordBytes = size_t{32} << 20;

struct RawRecord {
  std::string_view json;   // valid until the next call of Next; not parsed yet
  std::string_view path;   // of its file; valid as long as the reader
  int64_t line = 0;        // where it starts, from 1; of Parquet and Arrow the row
  std::string_view error;  // why it cannot be read; json is empty then. Valid as json is
};

// Of RawRecord::error.
inline constexpr std::string_view kTooLong = "the record is longer than 32 MiB";

// Of a Parquet or Arrow file.
struct Column {
  std::string name;
  bool needed = true;  // else it is left out where its type has no form in JSON
};

// One that is not decoded, or a field within one ("messages.picture").
struct LeftOutColumn {
  std::string name;
  std::string type;  // empty: nobody asked for it; else its type, which has no form in JSON
};

class RecordReader {
 public:
  // `columns` of a Parquet or Arrow file are decoded, or all that can be when the file has none of
  // them or none is given. Other kinds give all they have. Errors as ByteSource::Open;
  // FailedPrecondition when the library that reads Parquet is not installed. Defined in
  // open_record_reader.cc, which knows the kinds.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(
      const std::string& path, const std::vector<Column>& columns = {});
  virtual ~RecordReader() = default;

  // False at the end. InvalidArgument "path:line: ..." when the file is not well-formed between its
  // records, which no skipping of records can mend; DataLoss: it is damaged or cut short.
  virtual absl::StatusOr<bool> Next(RawRecord* record) = 0;

  // Bytes of the file behind the records given so far, an estimate for what is compressed, and in
  // all.
  virtual int64_t consumed_bytes() const = 0;
  virtual int64_t file_bytes() const = 0;
  virtual std::vector<LeftOutColumn> left_out() const { return {}; }
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_READER_H_
