// Exit codes of cox.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_EXIT_CODE_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_EXIT_CODE_H_

#include "absl/status/status.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // the request or the job failed
  kUsage = 2,        // wrong arguments or an invalid job
  kCancelled = 3,    // the job was cancelled
  kNotFound = 4,     // no such job, worker, file or repository
  kUnreachable = 5,  // no controller or Hub, or it refuses this user
  kTimeout = 124,
  kInterrupted = 130,  // Ctrl-C
};

int ExitOf(const absl::Status& status);

// Exit code for a job that cox waited for. States that are not terminal give kOk.
int ExitOf(v1::JobState state);

bool IsTerminal(v1::JobState state);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_EXIT_CODE_H_
