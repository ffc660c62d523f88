// Changes the state of jobs and waits until they reach it.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_JOB_CHANGE_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_JOB_CHANGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/command/verb.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

struct ChangeArgs {
  std::vector<std::string> jobs;  // at least one
  bool no_wait = false;
  double timeout_seconds = 300;  // for all jobs together
  std::string output = "table";
};

// Adds jobs, --no-wait, --timeout and -o to a verb that changes jobs.
void AddChangeArgs(Verb* verb, ChangeArgs* args);

// Sends `request` for each job. Unless no_wait, waits until each is in `goal` or terminal. Prints
// "job <id> <state>" per job; structured output is the object of one job, or {"jobs": [...]}.
// Events about checkpoints and warnings go to stderr meanwhile. A failed request does not keep the
// other jobs from being tried. Returns the highest exit code; kFailed for a job that reached
// another terminal state.
int ChangeJobs(Cox* cox, const ChangeArgs& args, v1::JobState goal,
               const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request);

// `status`, with the job in front of the message when several jobs were given, because some
// messages do not name the job.
absl::Status OfJob(const std::vector<std::string>& jobs, const std::string& job,
                   const absl::Status& status);

// JOB[:STEP], as users name a checkpoint of a job.
struct JobStep {
  std::string job;
  int64_t step = -1;  // -1: not given
};

JobStep SplitStep(const std::string& text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_JOB_CHANGE_H_
