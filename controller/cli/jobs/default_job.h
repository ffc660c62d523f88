// Jobs for verbs that look at a model or a dataset without a job file.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_DEFAULT_JOB_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_DEFAULT_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/cli/command/cox.h"

namespace coxswain::cli {

struct DefaultJobArgs {
  std::string model;     // path or "org/name" of the Hub; empty: none
  std::string dataset;   // likewise
  std::string name;      // config of a dataset of the Hub; empty: the default one
  std::string split;     // as in a job file; empty: the usual one
  std::string revision;  // of a dataset of the Hub; empty: main
  std::string format = "auto";
  std::string chat_template = "auto";
  int64_t sequence_len = 2048;
};

// The job of a file that sets only these keys. What it names of the Hub is in the cache
// (BringSources), but for the weights of the model. InvalidArgument has the errors of such a file;
// else errors of BringSources.
absl::StatusOr<config::JobSpec> DefaultJob(Cox* cox, const DefaultJobArgs& args);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_DEFAULT_JOB_H_
