#include "controller/data/resolve_formats.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/dataset_reader.h"
#include "controller/data/readers/detect_format.h"

namespace coxswain::data {
namespace {

absl::StatusOr<config::DatasetFormat> FormatOf(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset));
  RawRecord first;
  ASSIGN_OR_RETURN(const bool any, reader->Next(&first));
  if (!any) return config::DatasetFormat::kCompletion;
  absl::StatusOr<config::DatasetFormat> format = DetectFormat(first.json, dataset.fields);
  if (format.ok()) return format;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(first.path), ":", first.line, ": ", format.status().message()));
}

}  // namespace

absl::StatusOr<config::JobSpec> ResolveFormats(config::JobSpec job) {
  for (auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (config::DatasetSpec& dataset : *datasets) {
      if (dataset.format != config::DatasetFormat::kAuto) continue;
      ASSIGN_OR_RETURN(dataset.format, FormatOf(dataset));
    }
  }
  return job;
}

}  // namespace coxswain::data
