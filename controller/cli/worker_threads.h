// How many CPU threads the workers that cox starts get.
#ifndef COXSWAIN_CONTROLLER_CLI_WORKER_THREADS_H_
#define COXSWAIN_CONTROLLER_CLI_WORKER_THREADS_H_

#include <cstdint>

#include "common/config/job_spec.h"
#include "controller/files.h"

namespace coxswain::cli {

// Of each of `workers`: every core of this machine, shared equally; at least 1.
int64_t SharedThreads(int64_t workers);

// Those with which the job began, by the newest checkpoint that it goes on from: other numbers give
// other bits. 0: it begins at the first step, or no checkpoint says.
int64_t ThreadsOfCheckpoint(Files* files, const config::JobSpec& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_WORKER_THREADS_H_
