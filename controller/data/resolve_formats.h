// Datasets whose format is to be told from their first record.
#ifndef COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_
#define COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The job with every `format: auto` resolved. InvalidArgument "path:line: ...": the first record
// has the fields of no format. A dataset without a record is left to whoever reads it.
absl::StatusOr<config::JobSpec> ResolveFormats(config::JobSpec job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_RESOLVE_FORMATS_H_
