// What `auto` under spec.resources comes to, by the workers that live.
#ifndef COXSWAIN_CONTROLLER_DRIVER_CHOOSE_RESOURCES_H_
#define COXSWAIN_CONTROLLER_DRIVER_CHOOSE_RESOURCES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job_parser.h"
#include "common/config/job_spec.h"

namespace coxswain::scheduler {
struct Worker;
}  // namespace coxswain::scheduler

namespace coxswain::driver {

struct ResourceChoice {
  config::Device device = config::Device::kCpu;
  int64_t workers = 0;
  std::string reason = {};  // "auto: 4 workers, NVIDIA H200"
  bool final = false;       // no worker that registers later would change it

  config::ChosenResources chosen() const { return {.device = device, .workers = workers}; }
  std::string Text() const;  // "device: cuda, workers: 4 (auto: 4 workers, NVIDIA H200)"
};

// CUDA where the job wants or allows it and such a worker lives; of workers, where the job does not
// say how many, all of that kind. Nothing while no worker lives that it could take.
std::optional<ResourceChoice> ChooseResources(const config::JobSpec& job,
                                              const std::vector<scheduler::Worker>& workers);

// What stands in for a choice where none can be made yet: one worker, on the CPU where the job does
// not say.
ResourceChoice AssumedResources(const config::JobSpec& job);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_CHOOSE_RESOURCES_H_
