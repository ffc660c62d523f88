#include "controller/data/columnar/columnar_api.h"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/data/columnar/batch_source.h"
#include "controller/data/columnar/json_cell.h"
#include "controller/data/columnar/json_text.h"

using coxswain::data::AppendJsonString;
using coxswain::data::columnar::AppendCell;
using coxswain::data::columnar::BatchSource;
using coxswain::data::columnar::WantedColumn;

struct ColumnarFile {
  std::unique_ptr<BatchSource> source;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::vector<std::string> names;  // of the batch's columns, as JSON text with a colon behind
  int64_t row = 0;                 // next, of the batch
  std::string json;
  std::string error;

  // Goes to a batch with a row; false at the end.
  arrow::Result<bool> Advance() {
    while (batch == nullptr || row == batch->num_rows()) {
      ARROW_ASSIGN_OR_RAISE(batch, source->Next());
      if (batch == nullptr) return false;
      row = 0;
      names.clear();
      for (const std::shared_ptr<arrow::Field>& field : batch->schema()->fields()) {
        AppendJsonString(field->name(), &names.emplace_back());
        names.back() += ": ";
      }
    }
    return true;
  }

  void WriteRow() {
    json = "{";
    for (int column = 0; column < batch->num_columns(); ++column) {
      if (column > 0) json += ", ";
      json += names[column];
      AppendCell(*batch->column(column), row, &json);
    }
    json += '}';
    ++row;
  }
};

namespace {

// Runs `function`; an exception (of the library's, or of memory) becomes a status.
template <typename Function>
arrow::Status Guarded(Function function) {
  try {
    return function();
  } catch (const std::exception& error) {
    return arrow::Status::UnknownError(error.what());
  }
}

ColumnarFile* OpenColumnar(const char* path, ColumnarKind kind, const ColumnarColumn* columns,
                           size_t num_columns, char* error, size_t capacity) {
  auto file = std::make_unique<ColumnarFile>();
  const arrow::Status opened = Guarded([&] {
    std::vector<WantedColumn> wanted;
    for (size_t i = 0; i < num_columns; ++i) {
      wanted.push_back({columns[i].name, columns[i].needed != 0});
    }
    return BatchSource::Open(path, kind, wanted).Value(&file->source);
  });
  if (opened.ok()) return file.release();
  std::snprintf(error, capacity, "%s", opened.message().c_str());
  return nullptr;
}

const char* LeftOutColumn(const ColumnarFile* file, size_t index, const char** type) {
  const auto& left_out = file->source->left_out();
  if (index >= left_out.size()) return nullptr;
  *type = left_out[index].type.c_str();
  return left_out[index].name.c_str();
}

int NextRow(ColumnarFile* file, const char** json, size_t* size) {
  bool any = false;
  const arrow::Status read = Guarded([&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(any, file->Advance());
    if (any) file->WriteRow();
    return arrow::Status::OK();
  });
  if (!read.ok()) {
    file->error = read.message();
    return -1;
  }
  *json = file->json.data();
  *size = file->json.size();
  return any ? 1 : 0;
}

const char* LastError(const ColumnarFile* file) { return file->error.c_str(); }

double ProgressOf(const ColumnarFile* file) { return file->source->progress(); }

void CloseColumnar(ColumnarFile* file) { delete file; }

}  // namespace

__attribute__((visibility("default"))) const ColumnarApi* coxswain_columnar_api_2() {
  static constexpr ColumnarApi kApi = {OpenColumnar, LeftOutColumn, NextRow,
                                       LastError,    ProgressOf,    CloseColumnar};
  return &kApi;
}
