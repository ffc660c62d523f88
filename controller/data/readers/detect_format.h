// What `format: auto` comes to.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The format whose fields the record (JSON text) has. InvalidArgument, without path and line: it is
// no JSON object, or has the fields of no format; the message lists its fields and those of the
// formats.
absl::StatusOr<config::DatasetFormat> DetectFormat(std::string_view record,
                                                   const config::RecordFields& fields);

// As the job file spells it.
std::string_view FormatName(config::DatasetFormat format);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_DETECT_FORMAT_H_
