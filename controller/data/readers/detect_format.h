// Resolves `format: auto`.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The format whose fields are in the record (JSON text). InvalidArgument, without path and line:
// the record is no JSON object, or has the fields of no format. The message lists its fields and
// those of the formats.
absl::StatusOr<config::DatasetFormat> DetectFormat(std::string_view record,
                                                   const config::RecordFields& fields);

// The same, but two sides, or a label beside a completion, are the formats of preferences.
absl::StatusOr<config::DatasetFormat> DetectAnyFormat(std::string_view record,
                                                      const config::RecordFields& fields);

// The name of the format in job files.
std::string_view FormatName(config::DatasetFormat format);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_
