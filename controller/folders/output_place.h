// Checks where a job may write: never over files that it reads. Paths are compared by
// Files::Identity.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_PLACE_H_
#define COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_PLACE_H_

#include <string>

#include "absl/status/status.h"
#include "common/config/parser/job_parser.h"
#include "controller/runtime/files.h"

namespace coxswain {

// For a job before it is accepted. InvalidArgument names every path, when one of these holds:
//   checkpoint.output_dir, or logging.dir of a job with trackers, is the base model's directory, or
//   lies in it;
//   the base model or a dataset lies in a directory that the job replaces (export, checkpoint,
//   .staging);
//   such a directory holds files that no job wrote, or that were changed since
//   (controller/folders/output_folders.h).
absl::Status CheckOutputPlace(Files* files, const config::JobSpec& job);

// Adds the error of CheckOutputPlace to a job file without errors. It judges only paths that exist
// here, because the file may be for another machine.
void AddOutputPlaceErrors(Files* files, config::ParsedJob* job);

// For a job that runs. FailedPrecondition when the base model or a dataset is `directory` or lies
// in it, so that replacing the directory would delete them.
absl::Status CheckReplaceable(Files* files, const config::JobSpec& job,
                              const std::string& directory);
// Checks every directory of output_dir that the job replaces.
absl::Status CheckReplaceable(Files* files, const config::JobSpec& job);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_OUTPUT_PLACE_H_
