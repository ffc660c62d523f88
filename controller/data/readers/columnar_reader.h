// Reads records of Parquet and Arrow files with libcoxswain_columnar.so.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_COLUMNAR_READER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_COLUMNAR_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/data/columnar/columnar_api.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

// Loads the library of that file name from beside the program, ../lib or LD_LIBRARY_PATH.
// FailedPrecondition says how to install it.
absl::StatusOr<const ColumnarApi*> LoadColumnarLibrary(const char* name);
// libcoxswain_columnar.so, loaded once.
absl::StatusOr<const ColumnarApi*> LoadColumnarApi();

class ColumnarReader : public RecordReader {
 public:
  // FailedPrecondition as LoadColumnarApi. InvalidArgument: the file is damaged or cut short, or
  // the type of a needed column has no form in JSON.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            ColumnarKind kind,
                                                            const std::vector<Column>& columns);
  ~ColumnarReader() override { api_->close(file_); }
  ColumnarReader(const ColumnarReader&) = delete;
  ColumnarReader& operator=(const ColumnarReader&) = delete;

  absl::StatusOr<bool> Next(RawRecord* record) override;
  int64_t consumed_bytes() const override;
  int64_t file_bytes() const override { return file_bytes_; }
  std::vector<LeftOutColumn> left_out() const override;

 private:
  ColumnarReader(std::string path, const ColumnarApi* api, ColumnarFile* file, int64_t file_bytes)
      : path_(std::move(path)), api_(api), file_(file), file_bytes_(file_bytes) {}

  const std::string path_;
  const ColumnarApi* const api_;
  ColumnarFile* const file_;
  const int64_t file_bytes_;
  int64_t row_ = 0;  // row of the last record, from 1
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_COLUMNAR_READER_H_
