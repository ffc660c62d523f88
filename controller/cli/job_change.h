// Asking for a new state of jobs and waiting until it is reached.
#ifndef COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_
#define COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/cox.h"
#include "controller/cli/verb.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

struct ChangeArgs {
  std::vector<std::string> jobs;  // at least one
  bool no_wait = false;
  double timeout_seconds = 300;  // for all of them together
  std::string output = "table";
};

// jobs, --no-wait, --timeout and -o of a verb that changes jobs.
void AddChangeArgs(Verb* verb, ChangeArgs* args);

// Sends `request` for each job, then (unless no_wait) waits until each is in `goal` or terminal.
// Prints a line "job <id> <state>" for each, or one job as its object and several as {"jobs":
// [...]}. Checkpoints and warnings of the way there go to stderr. A job that fails does not keep
// the others from being tried. Returns the highest exit code: kFailed where another terminal state
// was reached.
int ChangeJobs(Cox* cox, const ChangeArgs& args, v1::JobState goal,
               const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request);

// `status` with the job in front where several were given: some messages do not say which they
// mean.
absl::Status OfJob(const std::vector<std::string>& jobs, const std::string& job,
                   const absl::Status& status);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOB_CHANGE_H_
