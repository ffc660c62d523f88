// What of this machine a job may use: resources chosen here, threads, whether a plan fits.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/config/parser/job_parser.h"
#include "controller/runtime/files.h"

namespace coxswain::cli {

// Resolves `auto` under spec.resources on this machine, for verbs that choose before a controller
// runs.

// Names of this machine's GPUs, as ListGpus gives them.
using Gpus = absl::StatusOr<std::vector<std::string>>;

struct LocalResources {
  config::ChosenResources chosen;
  std::string line;  // "device: cuda (auto: 1 NVIDIA H200)": each choice and its reason
};

// Chooses CUDA with one worker per GPU; without a GPU, one CPU worker. An error of `gpus` becomes
// the reason why there is none; Cancelled is returned. FailedPrecondition: the job wants all GPUs
// and there is none.
absl::StatusOr<LocalResources> ChooseLocally(const config::JobSpec& job, const Gpus& gpus);

// The same for `cox up`, which runs no job yet: all GPUs, or one CPU worker.
LocalResources AllLocally(const Gpus& gpus);

// The number of CPU threads of the workers that cox starts.

// Threads per worker when `workers` workers share all cores of this machine equally; at least 1.
int64_t SharedThreads(int64_t workers);

// Threads per worker with which the job began, from the newest checkpoint that it continues.
// Another number would change the bits. 0: the job begins at the first step, or the checkpoint does
// not say.
int64_t ThreadsOfCheckpoint(Files* files, const config::JobSpec& job);

// Whether a plan fits the memory of this machine.

// Empty when `workers` CPU workers of `worker_bytes` each fit. Else one line that says they do not.
// `machine_bytes`: memory of this machine. `plannable_bytes`: memory that one worker may plan with
// there.
std::string DoesNotFitHere(uint64_t worker_bytes, int64_t workers, uint64_t machine_bytes,
                           uint64_t plannable_bytes);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_
