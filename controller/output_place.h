// Where a job may write: never over what it reads. Paths are compared by what they lead to.
#ifndef COXSWAIN_CONTROLLER_OUTPUT_PLACE_H_
#define COXSWAIN_CONTROLLER_OUTPUT_PLACE_H_

#include <string>

#include "absl/status/status.h"
#include "common/config/job_parser.h"
#include "controller/files.h"

namespace coxswain {

// For a job before it is accepted. InvalidArgument: checkpoint.output_dir is the base model's
// directory or lies in it, or the base model or a dataset lies in a directory of output_dir that
// the job replaces (its export, a checkpoint, .staging), or such a directory holds what no job
// wrote or what was changed since (controller/output_folders.h); every path is named.
absl::Status CheckOutputPlace(Files* files, const config::JobSpec& job);

// CheckOutputPlace of a file without errors, as an error of that key. Only what exists here is
// judged: the file may be for another machine.
void AddOutputPlaceErrors(Files* files, config::ParsedJob* job);

// For a job that runs. FailedPrecondition: the base model or a dataset is `directory` or lies in
// it, and replacing or removing that would delete them.
absl::Status CheckReplaceable(Files* files, const config::JobSpec& job,
                              const std::string& directory);
// Checks every directory of output_dir that the job replaces.
absl::Status CheckReplaceable(Files* files, const config::JobSpec& job);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_OUTPUT_PLACE_H_
