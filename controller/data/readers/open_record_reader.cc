#include "controller/data/readers/open_record_reader.h"

#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "controller/data/columnar/json_text.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/readers/columnar_reader.h"
#include "controller/data/readers/csv_reader.h"
#include "controller/data/readers/json_reader.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

absl::StatusOr<bool> TextReader::Next(RawRecord* record) {
  ASSIGN_OR_RETURN(const bool any, lines_->Next(record));
  if (!any || !record->error.empty()) return any;
  json_ = "{\"text\": ";
  AppendJsonString(record->json, &json_);
  json_ += '}';
  record->json = json_;
  return true;
}

namespace {

std::optional<ColumnarKind> ColumnarKindOf(FileKind kind) {
  switch (kind) {
    case FileKind::kParquet:
      return kColumnarParquet;
    case FileKind::kArrowFile:
      return kColumnarArrowFile;
    case FileKind::kArrowStream:
      return kColumnarArrowStream;
    case FileKind::kJson:
    case FileKind::kCsv:
    case FileKind::kText:
      break;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(
    const std::string& path, const std::vector<Column>& columns) {
  ASSIGN_OR_RETURN(const FileKind kind, KindOf(path));
  if (const std::optional<ColumnarKind> columnar = ColumnarKindOf(kind)) {
    return ColumnarReader::Open(path, *columnar, columns);
  }
  ASSIGN_OR_RETURN(auto source, ByteSource::Open(path));
  if (kind == FileKind::kCsv) return CsvReader::Open(path, std::move(source));
  ASSIGN_OR_RETURN(auto json, JsonReader::Open(path, std::move(source)));
  if (kind == FileKind::kText) return std::make_unique<TextReader>(std::move(json));
  return json;
}

}  // namespace coxswain::data
