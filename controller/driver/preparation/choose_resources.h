// Chooses device and number of workers where spec.resources says `auto`, by the living workers.
#ifndef COXSWAIN_CONTROLLER_DRIVER_PREPARATION_CHOOSE_RESOURCES_H_
#define COXSWAIN_CONTROLLER_DRIVER_PREPARATION_CHOOSE_RESOURCES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/config/parser/job_parser.h"

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

// The device is CUDA when the job wants or allows it and such a worker lives. Without a number in
// the job, all workers of that kind are taken. Nothing while no worker lives that the job could
// take.
std::optional<ResourceChoice> ChooseResources(const config::JobSpec& job,
                                              const std::vector<scheduler::Worker>& workers);

// A stand-in while no choice can be made: one worker, on the CPU unless the job names the device.
ResourceChoice AssumedResources(const config::JobSpec& job);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_PREPARATION_CHOOSE_RESOURCES_H_
