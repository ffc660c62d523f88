#include "controller/scheduler/placement.h"

#include <map>
#include <utility>

namespace coxswain::scheduler {

std::vector<Placement> PlaceJobs(const Registry& registry, const std::vector<QueueEntry>& queue) {
  std::map<std::string, std::vector<Worker>> free;  // by device kind
  std::vector<WorkerPool> pools;
  for (const char* device : {"cpu", "cuda"}) {
    WorkerPool pool{.device = device, .free = {}, .living = registry.Living(device)};
    free[device] = registry.Free(device);
    for (const Worker& worker : free[device]) pool.free.push_back(worker.last_job);
    pools.push_back(std::move(pool));
  }
  std::map<std::string, std::string> device_of;  // by job
  for (const QueueEntry& entry : queue) device_of[entry.job] = entry.device;

  std::vector<Placement> placements;
  for (const Admission& admission : Admit(queue, pools)) {
    Placement placement{.job = admission.job, .workers = {}};
    const std::vector<Worker>& of_kind = free.at(device_of.at(admission.job));
    for (const size_t place : admission.workers) placement.workers.push_back(of_kind[place]);
    placements.push_back(std::move(placement));
  }
  return placements;
}

absl::Status Reserve(Registry* registry, const Placement& placement) {
  std::vector<std::string> incarnations;
  for (const Worker& worker : placement.workers) {
    incarnations.push_back(worker.target.incarnation);
  }
  return registry->Reserve(incarnations, placement.job);
}

}  // namespace coxswain::scheduler
