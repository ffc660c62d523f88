#include "controller/data/columnar/batch_source.h"

#include <algorithm>
#include <utility>

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include "controller/data/columnar/json_cell.h"

namespace coxswain::data::columnar {
namespace {

using Batch = std::shared_ptr<arrow::RecordBatch>;

constexpr int64_t kParquetBatchBytes = int64_t{8} << 20;
constexpr int64_t kParquetBatchRows = 4096;
constexpr int64_t kParquetBufferBytes = int64_t{1} << 20;

struct Columns {
  std::vector<int> chosen;  // their places in the schema
  std::vector<LeftOut> left_out;
};

// Those that are wanted; all when the schema has none of them.
arrow::Result<Columns> ColumnsOf(const arrow::Schema& schema,
                                 const std::vector<WantedColumn>& wanted) {
  Columns columns;
  const bool all = std::none_of(wanted.begin(), wanted.end(), [&](const WantedColumn& column) {
    return schema.GetFieldIndex(column.name) >= 0;
  });
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    const auto found = std::find_if(wanted.begin(), wanted.end(), [&](const WantedColumn& column) {
      return column.name == field.name();
    });
    if (!all && found == wanted.end()) {
      columns.left_out.push_back({field.name(), ""});
    } else if (HasJson(*field.type())) {
      columns.chosen.push_back(i);
      for (const auto& [name, type] : PartsWithoutJson(field)) {
        columns.left_out.push_back({name, type});
      }
    } else if (all || !found->needed) {
      columns.left_out.push_back({field.name(), field.type()->ToString()});
    } else {
      return arrow::Status::Invalid("column \"", field.name(), "\" is of type ",
                                    field.type()->ToString(), ", which has no form in JSON");
    }
  }
  if (columns.chosen.empty() && !columns.left_out.empty()) {
    return arrow::Status::Invalid("no column has a form in JSON; \"", columns.left_out[0].name,
                                  "\" is of type ", columns.left_out[0].type);
  }
  return columns;
}

class ParquetBatches : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(
      std::shared_ptr<arrow::io::ReadableFile> file, const std::vector<WantedColumn>& wanted) {
    parquet::ReaderProperties properties(arrow::system_memory_pool());
    properties.enable_buffered_stream();
    properties.set_buffer_size(kParquetBufferBytes);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file), properties));
    const parquet::FileMetaData& metadata = *builder.raw_reader()->metadata();
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    arrow_properties.set_batch_size(RowsOfABatch(metadata));
    builder.memory_pool(arrow::system_memory_pool())->properties(arrow_properties);
    auto source = std::make_unique<ParquetBatches>();
    source->num_rows_ = metadata.num_rows();
    ARROW_ASSIGN_OR_RAISE(source->file_, builder.Build());
    ARROW_RETURN_NOT_OK(source->Begin(wanted));
    return source;
  }

  arrow::Result<Batch> Next() override {
    Batch batch;
    ARROW_RETURN_NOT_OK(batches_->ReadNext(&batch));
    if (batch != nullptr) rows_given_ += batch->num_rows();
    return batch;
  }

  double progress() const override {
    return num_rows_ == 0 ? 1 : static_cast<double>(rows_given_) / static_cast<double>(num_rows_);
  }

 private:
  static int64_t RowsOfABatch(const parquet::FileMetaData& metadata) {
    int64_t row_bytes = 1;
    for (int group = 0; group < metadata.num_row_groups(); ++group) {
      const auto row_group = metadata.RowGroup(group);
      row_bytes = std::max(
          row_bytes, row_group->total_byte_size() / std::max<int64_t>(1, row_group->num_rows()));
    }
    return std::clamp<int64_t>(kParquetBatchBytes / row_bytes, 1, kParquetBatchRows);
  }

  arrow::Status Begin(const std::vector<WantedColumn>& wanted) {
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(file_->GetSchema(&schema));
    ARROW_ASSIGN_OR_RAISE(Columns found, ColumnsOf(*schema, wanted));
    left_out_ = std::move(found.left_out);
    const std::vector<int>& columns = found.chosen;
    // Parquet counts leaves: a list of structs has one for each field.
    const parquet::SchemaDescriptor& leaves = *file_->parquet_reader()->metadata()->schema();
    std::vector<int> chosen, row_groups;
    for (int leaf = 0; leaf < leaves.num_columns(); ++leaf) {
      const int root = schema->GetFieldIndex(leaves.GetColumnRoot(leaf)->name());
      if (std::binary_search(columns.begin(), columns.end(), root)) chosen.push_back(leaf);
    }
    for (int group = 0; group < file_->num_row_groups(); ++group) row_groups.push_back(group);
    return file_->GetRecordBatchReader(row_groups, chosen).Value(&batches_);
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // reads from file_
  int64_t num_rows_ = 0, rows_given_ = 0;
};

arrow::ipc::IpcReadOptions IpcOptions() {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = arrow::system_memory_pool();
  options.use_threads = false;
  return options;
}

// Offsets of the file are used as they are: a damaged one would read anywhere.
arrow::Result<Batch> Checked(Batch batch) {
  if (batch != nullptr) ARROW_RETURN_NOT_OK(batch->ValidateFull());
  return batch;
}

class ArrowFileBatches : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(
      const std::shared_ptr<arrow::io::ReadableFile>& file,
      const std::vector<WantedColumn>& wanted) {
    auto source = std::make_unique<ArrowFileBatches>();
    arrow::ipc::IpcReadOptions options = IpcOptions();
    ARROW_ASSIGN_OR_RAISE(const auto all, arrow::ipc::RecordBatchFileReader::Open(file, options));
    ARROW_ASSIGN_OR_RAISE(Columns columns, ColumnsOf(*all->schema(), wanted));
    options.included_fields = std::move(columns.chosen);
    source->left_out_ = std::move(columns.left_out);
    ARROW_ASSIGN_OR_RAISE(source->file_, arrow::ipc::RecordBatchFileReader::Open(file, options));
    return source;
  }

  arrow::Result<Batch> Next() override {
    if (given_ == file_->num_record_batches()) return Batch();
    ARROW_ASSIGN_OR_RAISE(Batch batch, file_->ReadRecordBatch(given_));
    ++given_;
    return Checked(std::move(batch));
  }

  double progress() const override {
    return static_cast<double>(given_) / std::max(1, file_->num_record_batches());
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int given_ = 0;
};

class ArrowStreamBatches : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(
      std::shared_ptr<arrow::io::ReadableFile> file, const std::vector<WantedColumn>& wanted) {
    auto source = std::make_unique<ArrowStreamBatches>();
    arrow::ipc::IpcReadOptions options = IpcOptions();
    ARROW_ASSIGN_OR_RAISE(const auto all, arrow::ipc::RecordBatchStreamReader::Open(file, options));
    ARROW_ASSIGN_OR_RAISE(Columns columns, ColumnsOf(*all->schema(), wanted));
    options.included_fields = std::move(columns.chosen);
    source->left_out_ = std::move(columns.left_out);
    ARROW_RETURN_NOT_OK(file->Seek(0));
    ARROW_ASSIGN_OR_RAISE(source->stream_,
                          arrow::ipc::RecordBatchStreamReader::Open(file, options));
    ARROW_ASSIGN_OR_RAISE(source->size_, file->GetSize());
    source->file_ = std::move(file);
    return source;
  }

  arrow::Result<Batch> Next() override {
    Batch batch;
    ARROW_RETURN_NOT_OK(stream_->ReadNext(&batch));
    return Checked(std::move(batch));
  }

  double progress() const override {
    return static_cast<double>(file_->Tell().ValueOr(0)) /
           static_cast<double>(std::max<int64_t>(1, size_));
  }

 private:
  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::shared_ptr<arrow::RecordBatchReader> stream_;
  int64_t size_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<BatchSource>> BatchSource::Open(
    const std::string& path, ColumnarKind kind, const std::vector<WantedColumn>& columns) {
  ARROW_ASSIGN_OR_RAISE(auto file,
                        arrow::io::ReadableFile::Open(path, arrow::system_memory_pool()));
  switch (kind) {
    case kColumnarParquet:
      return ParquetBatches::Open(std::move(file), columns);
    case kColumnarArrowFile:
      return ArrowFileBatches::Open(file, columns);
    case kColumnarArrowStream:
      break;
  }
  return ArrowStreamBatches::Open(std::move(file), columns);
}

}  // namespace coxswain::data::columnar
