#include "controller/data/dataset_reader.h"

#include <limits>

#include "common/status_macros.h"
#include "controller/data/dataset_files.h"
#include "controller/data/readers/byte_source.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetReader>> DatasetReader::Open(
    const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(DatasetFiles files, ListDatasetFiles(dataset));
  std::unique_ptr<DatasetReader> reader(
      new DatasetReader(std::move(files.paths), ColumnsOf(dataset),
                        dataset.max_samples.value_or(std::numeric_limits<int64_t>::max())));
  RETURN_IF_ERROR(reader->OpenNext().status());
  return reader;
}

absl::StatusOr<bool> DatasetReader::Next(RawRecord* record) {
  if (left_ == 0) return false;
  while (true) {
    ASSIGN_OR_RETURN(const bool any, file_->Next(record));
    if (any) {
      --left_;
      ++of_file_;
      record->path = paths_[next_path_ - 1];
      return true;
    }
    ASSIGN_OR_RETURN(const bool more, OpenNext());
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
  if (next_path_ == paths_.size()) return false;
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
