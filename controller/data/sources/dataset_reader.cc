#include "controller/data/sources/dataset_reader.h"

#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/data/readers/fields_read.h"

namespace coxswain::data {

namespace {

// What the format reads, and what it may be refused for.
std::vector<Column> ColumnsOf(const config::DatasetSpec& dataset) {
  std::vector<Column> columns;
  for (std::string& field : FieldsRead(dataset.format, dataset.fields)) {
    columns.push_back({std::move(field)});
  }
  if (columns.empty()) return columns;
  for (const std::string_view field : kPreferenceFields) {
    columns.push_back({std::string(field), /*needed=*/false});
  }
  return columns;
}

absl::StatusOr<int64_t> CountRecords(std::span<const std::string> paths,
                                     const std::vector<Column>& columns) {
  int64_t count = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const auto file, RecordReader::Open(path, columns));
    for (bool any = true; any; count += any ? 1 : 0) {
      RawRecord record;
      ASSIGN_OR_RETURN(any, file->Next(&record));
    }
  }
  return count;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetReader>> DatasetReader::Open(
    const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(DatasetFiles files, ListDatasetFiles(dataset));
  std::unique_ptr<DatasetReader> reader(
      new DatasetReader(std::move(files), ColumnsOf(dataset),
                        dataset.max_samples.value_or(std::numeric_limits<int64_t>::max())));
  RETURN_IF_ERROR(reader->BeginPart().status());
  return reader;
}

absl::StatusOr<RowRange> DatasetReader::RowsOfPart(const DatasetPart& part) const {
  int64_t count = std::numeric_limits<int64_t>::max();
  if (part.rows.of_count()) {
    const std::span<const std::string> paths(paths_.data() + next_path_, part.files);
    ASSIGN_OR_RETURN(count, CountRecords(paths, columns_));
  }
  if (part.rows.whole()) return RowRange{.begin = 0, .end = count};
  return RowsOf(part.rows, count);
}

absl::StatusOr<bool> DatasetReader::BeginPart() {
  if (next_part_ == parts_.size()) return false;
  const DatasetPart& part = parts_[next_part_++];
  ASSIGN_OR_RETURN(const RowRange rows, RowsOfPart(part));
  end_of_part_ = next_path_ + part.files;
  RETURN_IF_ERROR(OpenNext().status());
  left_of_part_ = rows.begin;
  for (int64_t skipped = 0; skipped < rows.begin; ++skipped) {
    RawRecord record;
    ASSIGN_OR_RETURN(const bool any, NextOfPart(&record));
    of_file_ = 0;
    if (!any) break;
  }
  any_of_part_ = false;
  left_of_part_ = rows.end - rows.begin;
  return true;
}

absl::Status DatasetReader::EndPart() {
  const SplitSlice& rows = parts_[next_part_ - 1].rows;
  if (!any_of_part_ && !rows.whole()) {
    return absl::InvalidArgumentError(absl::StrCat("dataset ", paths_[end_of_part_ - 1], ": split ",
                                                   SplitText(rows), " begins behind its records"));
  }
  for (; next_path_ < end_of_part_; ++next_path_) {
    bytes_before_ += DatasetFileBytes(paths_[next_path_]).value_or(0);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> DatasetReader::NextOfPart(RawRecord* record) {
  if (left_of_part_ == 0) return false;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, file_->Next(record));
    if (any) {
      --left_of_part_;
      ++of_file_;
      record->path = paths_[next_path_ - 1];
      return true;
    }
    ASSIGN_OR_RETURN(const bool more, OpenNext());
    if (!more) return false;
  }
}

absl::StatusOr<bool> DatasetReader::Next(RawRecord* record) {
  if (left_ == 0) return false;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, NextOfPart(record));
    if (any) {
      --left_;
      any_of_part_ = true;
      return true;
    }
    RETURN_IF_ERROR(EndPart());
    ASSIGN_OR_RETURN(const bool more, BeginPart());
    if (!more) return false;
  }
}

void DatasetReader::CountLeftOut() {
  if (file_ == nullptr || of_file_ == 0) return;
  for (LeftOutColumn& column : file_->left_out()) {
    left_out_[column.name].type = std::move(column.type);
    left_out_[column.name].records += of_file_;
  }
  of_file_ = 0;
}

const std::map<std::string, DatasetReader::LeftOut>& DatasetReader::LeftOutColumns() {
  CountLeftOut();
  return left_out_;
}

absl::StatusOr<bool> DatasetReader::OpenNext() {
  if (next_path_ == end_of_part_) return false;
  CountLeftOut();
  ASSIGN_OR_RETURN(auto next, RecordReader::Open(paths_[next_path_], columns_));
  if (file_ != nullptr) bytes_before_ += file_->file_bytes();
  file_ = std::move(next);
  ++next_path_;
  return true;
}

int64_t DatasetReader::consumed_bytes() const { return bytes_before_ + file_->consumed_bytes(); }

absl::StatusOr<int64_t> DatasetBytes(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(const DatasetFiles files, ListDatasetFiles(dataset));
  int64_t bytes = 0;
  for (const std::string& path : files.paths) {
    ASSIGN_OR_RETURN(const int64_t of_file, DatasetFileBytes(path));
    bytes += of_file;
  }
  return bytes;
}

}  // namespace coxswain::data
