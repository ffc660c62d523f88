#include "controller/data/sources/resolve_formats.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/detect_format.h"
#include "controller/data/sources/dataset_reader.h"

namespace coxswain::data {
namespace {

constexpr int kLookedAt = 100;

using Detect = absl::StatusOr<config::DatasetFormat>(std::string_view, const config::RecordFields&);

absl::StatusOr<config::DatasetFormat> FormatOfRecord(const RawRecord& record,
                                                     const config::RecordFields& fields,
                                                     Detect* detect) {
  absl::StatusOr<config::DatasetFormat> format =
      record.error.empty() ? detect(record.json, fields)
                           : absl::InvalidArgumentError(std::string(record.error));
  if (format.ok()) return format;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(record.path), ":", record.line, ": ", format.status().message()));
}

// The columns that might have told the format, had their types a form in JSON.
absl::Status WithColumns(const absl::Status& refused, DatasetReader& reader) {
  std::string columns;
  for (const auto& [name, column] : reader.LeftOutColumns()) {
    absl::StrAppend(&columns, columns.empty() ? "; not read: " : ", ", "column \"", name,
                    "\" of type ", column.type);
  }
  return absl::Status(refused.code(), absl::StrCat(std::string(refused.message()), columns));
}

absl::StatusOr<config::DatasetFormat> FormatBy(Detect* detect, const config::DatasetSpec& dataset,
                                               config::OnBadRecord on_bad_record) {
  if (dataset.format != config::DatasetFormat::kAuto) return dataset.format;
  ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset));
  const int most = on_bad_record == config::OnBadRecord::kSkip ? kLookedAt : 1;
  absl::Status refused;
  RawRecord record;
  for (int i = 0; i < most; ++i) {
    ASSIGN_OR_RETURN(const bool any, reader->Next(&record));
    if (!any) break;
    const auto format = FormatOfRecord(record, dataset.fields, detect);
    if (format.ok()) return format;
    refused.Update(format.status());
  }
  if (!refused.ok()) return WithColumns(refused, *reader);
  return config::DatasetFormat::kCompletion;
}

}  // namespace

absl::StatusOr<config::DatasetFormat> FormatOf(const config::DatasetSpec& dataset,
                                               config::OnBadRecord on_bad_record) {
  return FormatBy(&DetectFormat, dataset, on_bad_record);
}

absl::StatusOr<config::DatasetFormat> AnyFormatOf(const config::DatasetSpec& dataset) {
  return FormatBy(&DetectAnyFormat, dataset, config::OnBadRecord::kSkip);
}

absl::StatusOr<config::JobSpec> ResolveFormats(config::JobSpec job) {
  for (auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (config::DatasetSpec& dataset : *datasets) {
      ASSIGN_OR_RETURN(dataset.format, FormatOf(dataset, job.on_bad_record));
    }
  }
  return job;
}

}  // namespace coxswain::data
