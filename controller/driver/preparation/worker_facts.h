// The facts about workers that a plan needs.
#ifndef COXSWAIN_CONTROLLER_DRIVER_PREPARATION_WORKER_FACTS_H_
#define COXSWAIN_CONTROLLER_DRIVER_PREPARATION_WORKER_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/gpu_table.h"
#include "common/plan/plan.h"

namespace coxswain::scheduler {
struct Worker;
}  // namespace coxswain::scheduler

namespace coxswain::driver {

// Each fact is the least of all workers; 0 where no worker says it.
struct WorkerFacts {
  uint64_t memory_bytes = 0;
  int64_t threads = 0;
  int32_t compute_capability = 0;  // x 10; 0 without a GPU
  uint64_t host_bytes = 0;         // memory of a host
  // The slowest; without rates where one of them has none.
  Gpu gpu = {};
  // Measured between a gang like them; LeastOf knows none.
  std::vector<plan::LinkSpeed> links = {};
  std::vector<int32_t> ranks_of_hosts = {};  // of a gang, in order of rank; LeastOf knows none
};
// By the table, or by what the worker measured; empty on the CPU.
Gpu GpuOfWorker(const scheduler::Worker& worker);

WorkerFacts LeastOf(const std::vector<scheduler::Worker>& workers);

// How many neighbours share each host.
std::vector<int32_t> RanksOfHosts(const std::vector<scheduler::Worker>& gang);

// The workers of a kind ("cpu", "cuda") that are not lost.
std::vector<scheduler::Worker> LivingWorkers(const std::vector<scheduler::Worker>& workers,
                                             const std::string& device);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_PREPARATION_WORKER_FACTS_H_
