// What `auto` under spec.resources comes to on this machine, for the verbs that choose before there
// is a controller.
#ifndef COXSWAIN_CONTROLLER_CLI_LOCAL_RESOURCES_H_
#define COXSWAIN_CONTROLLER_CLI_LOCAL_RESOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_parser.h"

namespace coxswain::cli {

// Names of this machine's GPUs, as ListGpus gives them.
using Gpus = absl::StatusOr<std::vector<std::string>>;

struct LocalResources {
  config::ChosenResources chosen;
  std::string line;  // "device: cuda (auto: 1 NVIDIA H200)"; what was left to be chosen, and why
};

// CUDA where there is a GPU, and as many workers as GPUs, or one on the CPU. An error of `gpus`
// says why there is none, but Cancelled is returned. FailedPrecondition: the job wants all GPUs and
// there is none.
absl::StatusOr<LocalResources> ChooseLocally(const config::JobSpec& job, const Gpus& gpus);

// The same for `cox up`, which runs no job yet: all GPUs, or one CPU worker.
LocalResources AllLocally(const Gpus& gpus);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_LOCAL_RESOURCES_H_
