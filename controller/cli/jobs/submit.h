// Submits a job file.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/jobs/job_file.h"

namespace coxswain::cli {

struct SubmitOptions {
  bool paused = false;
  std::string idempotency_key;  // empty: a random key
};

// Checks the file here, then submits it. A controller on this machine resolves relative paths
// against the file's directory. For a controller elsewhere relative paths are InvalidArgument.
absl::StatusOr<v1::Job> SubmitJob(Cox* cox, const JobFile& file, const SubmitOptions& options);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_
