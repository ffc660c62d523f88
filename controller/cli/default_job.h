// Jobs for verbs that look at a model or a dataset without a job file.
#ifndef COXSWAIN_CONTROLLER_CLI_DEFAULT_JOB_H_
#define COXSWAIN_CONTROLLER_CLI_DEFAULT_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::cli {

struct DefaultJobArgs {
  std::string model;    // path; empty: none
  std::string dataset;  // path; empty: none
  std::string format = "auto";
  std::string chat_template = "auto";
  int64_t sequence_len = 2048;
};

// The job of a file that sets only these keys. InvalidArgument has the errors of such a file.
absl::StatusOr<config::JobSpec> DefaultJob(const DefaultJobArgs& args);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_DEFAULT_JOB_H_
