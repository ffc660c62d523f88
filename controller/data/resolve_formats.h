// Datasets whose format is to be told from their records.
#ifndef COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_
#define COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The format that the first record has the fields of; where bad records are skipped, the first of
// a hundred that has those of one. InvalidArgument "path:line: ...": what is wrong with the first
// record. A dataset without a record is kCompletion: whoever reads it finds it empty.
absl::StatusOr<config::DatasetFormat> FormatOf(const config::DatasetSpec& dataset,
                                               config::OnBadRecord on_bad_record);

// The job with every `format: auto` resolved. Errors as FormatOf.
absl::StatusOr<config::JobSpec> ResolveFormats(config::JobSpec job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_
