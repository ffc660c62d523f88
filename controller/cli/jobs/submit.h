// Submits a job file, and says how to continue the job.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/jobs/job_file.h"

namespace coxswain::cli {

// Submits a job file.
struct SubmitOptions {
  bool paused = false;
  std::string idempotency_key;  // empty: a random key
};

// Checks the file here, then submits it. A controller on this machine resolves relative paths
// against the file's directory. For a controller elsewhere relative paths are InvalidArgument.
absl::StatusOr<v1::Job> SubmitJob(Cox* cox, const JobFile& file, const SubmitOptions& options);

// The command that continues a job: the user's own command line, ready to paste into a shell.

// `word` for a POSIX shell, quoted if necessary.
std::string ShellQuoted(const std::string& word);

// "cox train 'my job.yaml' --set train.max_steps=40 --set checkpoint.resume=DIR". `file` holds the
// user's arguments, `flags` further whole arguments, e.g. "--threads", "2". An override of
// checkpoint.resume is left out. A job from standard input must be given there again.
std::string ResumeCommand(const JobFileArgs& file, const std::vector<std::string>& flags,
                          const std::string& checkpoint);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_SUBMIT_H_
