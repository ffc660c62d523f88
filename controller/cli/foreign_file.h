// A configuration of another trainer where a job file is expected.
#ifndef COXSWAIN_CONTROLLER_CLI_FOREIGN_FILE_H_
#define COXSWAIN_CONTROLLER_CLI_FOREIGN_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "controller/cli/cox.h"
#include "controller/cli/job_file.h"

namespace coxswain::cli {

// Where `file->yaml` is a configuration of Axolotl, LLaMA-Factory or TRL, puts the job in its place
// and prints the report of `cox import` on standard error. `name`: ImportRequest's.
// InvalidArgument: something stands in the way; the message is the report's last line, and the
// others are printed.
absl::Status ImportWhereForeign(Cox* cox, const std::string& name, JobFile* file);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_FOREIGN_FILE_H_
