// Asking for a new state of a job and waiting until it is reached.
#ifndef COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_
#define COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/cox.h"
#include "controller/cli/verb.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

struct ChangeArgs {
  std::string job;
  bool no_wait = false;
  double timeout_seconds = 300;
  std::string output = "table";
};

// job, --no-wait, --timeout and -o of a verb that changes a job.
void AddChangeArgs(Verb* verb, ChangeArgs* args);

// Sends `request`, then (unless no_wait) waits until the job is in `goal` or terminal, prints
// "job <id> <state>" or the object, and returns the exit code: kFailed when another terminal state
// was reached. Checkpoints and warnings of the way there go to stderr.
int ChangeJob(Cox* cox, const ChangeArgs& args, v1::JobState goal,
              const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_
