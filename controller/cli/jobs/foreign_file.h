// A configuration of another trainer where a job file is expected.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_FOREIGN_FILE_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_FOREIGN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/import/job_import.h"

namespace coxswain::cli {

// The job's YAML, with the report of `cox import` on standard error. `shown`: the file as the user
// named it. InvalidArgument: something stands in the way; the message is the report's last line,
// and the others are printed.
absl::StatusOr<std::string> ImportForeignFile(Cox* cox, const std::string& shown,
                                              const job_import::ImportRequest& request);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_FOREIGN_FILE_H_
