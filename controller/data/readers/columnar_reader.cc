#include "controller/data/readers/columnar_reader.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/byte_source.h"

namespace coxswain::data {
namespace {

constexpr char kColumnarLibrary[] = "libcoxswain_columnar.so";

// Of the build that this program comes from: build/PRESET/bin/PROGRAM.
std::string PresetOfThis() {
  std::error_code error;
  const std::filesystem::path build =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const bool built = !error && build.parent_path().filename() == "build";
  return built ? build.filename().string() : "cpu";
}

absl::Status Unreadable(const std::string& path, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("dataset ", path, ": ", why));
}

}  // namespace

absl::StatusOr<const ColumnarApi*> LoadColumnarLibrary(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, kColumnarApiSymbol);
  if (symbol == nullptr) {
    const char* error = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("Parquet and Arrow files are read by ", name, ", which cannot be loaded (",
                     error == nullptr ? "unknown" : error,
                     "). Build it alone: deploy/fetch-arrow.sh && deploy/build.sh ", PresetOfThis(),
                     " coxswain_columnar"));
  }
  return reinterpret_cast<ColumnarApiFunction*>(symbol)();
}

absl::StatusOr<const ColumnarApi*> LoadColumnarApi() {
  static const auto* const kLoaded =
      new absl::StatusOr<const ColumnarApi*>(LoadColumnarLibrary(kColumnarLibrary));
  return *kLoaded;
}

absl::StatusOr<std::unique_ptr<RecordReader>> ColumnarReader::Open(
    const std::string& path, ColumnarKind kind, const std::vector<Column>& columns) {
  ASSIGN_OR_RETURN(const int64_t file_bytes, DatasetFileBytes(path));
  const absl::StatusOr<const ColumnarApi*> api = LoadColumnarApi();
  if (!api.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("dataset ", path, ": ", api.status().message()));
  }
  std::vector<ColumnarColumn> wanted;
  for (const Column& column : columns) wanted.push_back({column.name.c_str(), column.needed});
  std::array<char, 1024> error = {};
  ColumnarFile* file =
      (*api)->open(path.c_str(), kind, wanted.data(), wanted.size(), error.data(), error.size());
  if (file == nullptr) return Unreadable(path, error.data());
  return std::unique_ptr<RecordReader>(new ColumnarReader(path, *api, file, file_bytes));
}

absl::StatusOr<bool> ColumnarReader::Next(RawRecord* record) {
  const char* json = nullptr;
  size_t size = 0;
  const int more = api_->next(file_, &json, &size);
  if (more < 0) {
    return absl::DataLossError(absl::StrCat("dataset ", path_, " after row ", row_,
                                            ": damaged or cut short (", api_->last_error(file_),
                                            ")"));
  }
  if (more == 0) return false;
  ++row_;
  if (size > kMaxRecordBytes) {
    *record = {{}, path_, row_, kTooLong};
  } else {
    *record = {std::string_view(json, size), path_, row_, {}};
  }
  return true;
}

std::vector<LeftOutColumn> ColumnarReader::left_out() const {
  std::vector<LeftOutColumn> columns;
  const char* type = nullptr;
  while (const char* name = api_->left_out(file_, columns.size(), &type)) {
    columns.push_back({name, type});
  }
  return columns;
}

int64_t ColumnarReader::consumed_bytes() const {
  return static_cast<int64_t>(api_->progress(file_) * static_cast<double>(file_bytes_));
}

}  // namespace coxswain::data
