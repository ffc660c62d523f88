// Resolves `auto` under spec.resources on this machine, for verbs that choose before a controller
// runs.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/parser/job_parser.h"

namespace coxswain::cli {

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

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_LOCAL_RESOURCES_H_
