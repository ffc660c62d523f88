// The number of CPU threads of the workers that cox starts.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_WORKER_THREADS_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_WORKER_THREADS_H_

#include <cstdint>

#include "common/config/job_spec.h"
#include "controller/runtime/files.h"

namespace coxswain::cli {

// Threads per worker when `workers` workers share all cores of this machine equally; at least 1.
int64_t SharedThreads(int64_t workers);

// Threads per worker with which the job began, from the newest checkpoint that it continues.
// Another number would change the bits. 0: the job begins at the first step, or the checkpoint does
// not say.
int64_t ThreadsOfCheckpoint(Files* files, const config::JobSpec& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_WORKER_THREADS_H_
