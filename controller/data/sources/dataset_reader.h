// Reads the records of a dataset of a job: its parts one after the other, at most max_samples
// records.
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_READER_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record_reader.h"
#include "controller/data/sources/dataset_files.h"

namespace coxswain::data {

class DatasetReader {
 public:
  // Opens the first file. A slice in percent or from the end needs the number of records: then the
  // part is read once before, to count them. Errors as ListDatasetFiles, RecordReader::Open and
  // RowsOf.
  static absl::StatusOr<std::unique_ptr<DatasetReader>> Open(const config::DatasetSpec& dataset);

  // False at the end. Errors as RecordReader. InvalidArgument: a slice selects no record of its
  // part.
  absl::StatusOr<bool> Next(RawRecord* record);

  // Columns of Parquet and Arrow files that were not decoded, by name, with the number of records
  // that have them.
  struct LeftOut {
    std::string type;  // LeftOutColumn::type
    int64_t records = 0;
  };
  const std::map<std::string, LeftOut>& LeftOutColumns();
  const std::vector<std::string>& paths() const { return paths_; }

  // Bytes of all files that the records so far have used.
  int64_t consumed_bytes() const;

 private:
  DatasetReader(DatasetFiles files, std::vector<Column> columns, int64_t max_samples)
      : paths_(std::move(files.paths)),
        parts_(std::move(files.parts)),
        columns_(std::move(columns)),
        left_(max_samples) {}

  absl::StatusOr<bool> BeginPart();  // false: no part is left
  absl::Status EndPart();
  absl::StatusOr<RowRange> RowsOfPart(const DatasetPart& part) const;
  absl::StatusOr<bool> NextOfPart(RawRecord* record);  // false: the part has no more
  absl::StatusOr<bool> OpenNext();                     // false: no file of the part is left
  void CountLeftOut();

  const std::vector<std::string> paths_;
  const std::vector<DatasetPart> parts_;
  const std::vector<Column> columns_;
  std::map<std::string, LeftOut> left_out_;
  int64_t of_file_ = 0;  // records given of the current file, not yet in left_out_
  int64_t left_;         // records that may still be given
  size_t next_part_ = 0;
  size_t next_path_ = 0, end_of_part_ = 0;  // paths
  int64_t left_of_part_ = 0;                // records that may still be given
  bool any_of_part_ = false;                // a record of the part was given
  std::unique_ptr<RecordReader> file_;
  int64_t bytes_before_ = 0;  // bytes of the files before file_
};

// Bytes of all files of the dataset.
absl::StatusOr<int64_t> DatasetBytes(const config::DatasetSpec& dataset);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_READER_H_
