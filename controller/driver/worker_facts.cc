#include "controller/driver/worker_facts.h"

#include <algorithm>

#include "controller/scheduler/registry.h"

namespace coxswain::driver {
namespace {

template <typename T>
void TakeLeast(T value, T* least) {
  if (value > 0) *least = *least == 0 ? value : std::min(*least, value);
}

}  // namespace

WorkerFacts LeastOf(const std::vector<scheduler::Worker>& workers) {
  WorkerFacts facts;
  for (const scheduler::Worker& worker : workers) {
    TakeLeast<uint64_t>(worker.hello.memory_bytes(), &facts.memory_bytes);
    TakeLeast<uint64_t>(worker.hello.host_memory_bytes(), &facts.host_bytes);
    TakeLeast<int64_t>(worker.hello.threads(), &facts.threads);
    TakeLeast<int32_t>(worker.hello.compute_capability(), &facts.compute_capability);
  }
  return facts;
}

std::vector<int32_t> RanksOfHosts(const std::vector<scheduler::Worker>& gang) {
  std::vector<int32_t> counts;
  for (size_t rank = 0; rank < gang.size(); ++rank) {
    const bool neighbour = rank > 0 && gang[rank].hello.host() == gang[rank - 1].hello.host();
    if (!neighbour) counts.push_back(0);
    ++counts.back();
  }
  return counts;
}

std::vector<scheduler::Worker> LivingWorkers(const std::vector<scheduler::Worker>& workers,
                                             const std::string& device) {
  std::vector<scheduler::Worker> living;
  for (const scheduler::Worker& worker : workers) {
    const bool lost = worker.status.phase == state::WorkerPhase::kLost;
    if (!lost && worker.hello.build().device() == device) living.push_back(worker);
  }
  return living;
}

}  // namespace coxswain::driver
