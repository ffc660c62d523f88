// JOB[:STEP], as users name a checkpoint of a job.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_JOB_STEP_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_JOB_STEP_H_

#include <cstdint>
#include <string>

namespace coxswain::cli {

struct JobStep {
  std::string job;
  int64_t step = -1;  // -1: not given
};

JobStep SplitStep(const std::string& text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_JOB_STEP_H_
