// Resolves the format of datasets from their records.
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCES_RESOLVE_FORMATS_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCES_RESOLVE_FORMATS_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The format whose fields the first record has. If bad records are skipped, the first of a hundred
// records that has the fields of a format decides. InvalidArgument "path:line: ...": the fault of
// the first record. A dataset without records is kCompletion: its reader will report that it is
// empty.
absl::StatusOr<config::DatasetFormat> FormatOf(const config::DatasetSpec& dataset,
                                               config::OnBadRecord on_bad_record);

// The format of a dataset whatever it is for: also those of preferences. Bad records are skipped.
absl::StatusOr<config::DatasetFormat> AnyFormatOf(const config::DatasetSpec& dataset);

// Returns the job with every `format: auto` resolved. Errors as FormatOf.
absl::StatusOr<config::JobSpec> ResolveFormats(config::JobSpec job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCES_RESOLVE_FORMATS_H_
