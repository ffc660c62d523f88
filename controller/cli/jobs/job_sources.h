// What a job names of the Hub, on this machine: for verbs that need no controller.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_JOB_SOURCES_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_JOB_SOURCES_H_

#include "absl/status/statusor.h"
#include "common/config/parser/job_parser.h"
#include "controller/cli/command/cox.h"

namespace coxswain::cli {

// The job with paths of the cache, into which what is missing was downloaded with the user's own
// token and a bar on standard error. Unchanged, and silent, where the job names paths alone. Errors
// as PinSources and FetchSources; Cancelled after Ctrl-C.
absl::StatusOr<config::ParsedJob> BringSources(Cox* cox, config::ParsedJob job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_JOB_SOURCES_H_
