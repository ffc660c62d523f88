// Submitting a job file.
#ifndef COXSWAIN_CONTROLLER_CLI_SUBMIT_H_
#define COXSWAIN_CONTROLLER_CLI_SUBMIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/cox.h"
#include "controller/cli/job_file.h"

namespace coxswain::cli {

struct SubmitOptions {
  bool paused = false;
  std::string idempotency_key;  // empty: a random one
};

// Checks the file here, then submits it. Relative paths are resolved by the controller against the
// file's directory when it runs on this machine; for another one they are InvalidArgument.
absl::StatusOr<v1::Job> SubmitJob(Cox* cox, const JobFile& file, const SubmitOptions& options);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_SUBMIT_H_
