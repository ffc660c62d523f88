// The record batches of a Parquet file, an Arrow file or an Arrow stream.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_BATCH_SOURCE_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_BATCH_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include <arrow/api.h>

#include "controller/data/columnar/columnar_api.h"

namespace coxswain::data::columnar {

// Fields as in ColumnarColumn.
struct WantedColumn {
  std::string name;
  bool needed = true;
};

// A column, or a field within one ("messages.picture"), that is not decoded.
struct LeftOut {
  std::string name;
  std::string type;  // empty: the column is not wanted
};

// Memory holds a few batches. Parquet is decoded page by page into batches of about 8 MiB. Arrow
// has the batches of its file.
class BatchSource {
 public:
  // `columns` as in ColumnarApi::open. Invalid: the type of a needed column has no form in JSON.
  static arrow::Result<std::unique_ptr<BatchSource>> Open(const std::string& path,
                                                          ColumnarKind kind,
                                                          const std::vector<WantedColumn>& columns);
  virtual ~BatchSource() = default;

  // The next batch; null at the end. If offsets come from the file unchanged, all of them are
  // checked.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
  // The part of the rows that Next has returned, 0 to 1.
  virtual double progress() const = 0;
  const std::vector<LeftOut>& left_out() const { return left_out_; }

 protected:
  std::vector<LeftOut> left_out_;
};

}  // namespace coxswain::data::columnar

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_BATCH_SOURCE_H_
