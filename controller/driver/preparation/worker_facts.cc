#include "controller/driver/preparation/worker_facts.h"

#include <algorithm>

#include "controller/scheduler/registry.h"

namespace coxswain::driver {
namespace {

template <typename T>
void TakeLeast(T value, T* least) {
  if (value > 0) *least = *least == 0 ? value : std::min(*least, value);
}

// Each rate and the peak are the least of both.
void TakeSlower(const Gpu& gpu, Gpu* slowest) {
  if (slowest->name.empty()) {
    *slowest = gpu;
    return;
  }
  if (!slowest->rates) return;
  if (!gpu.rates) {
    *slowest = gpu;
    return;
  }
  const GpuRates before = *slowest->rates;
  const double peak = std::min(slowest->peak_flops_per_second, gpu.peak_flops_per_second);
  if (gpu.rates->product_flops_per_second < before.product_flops_per_second) *slowest = gpu;
  slowest->peak_flops_per_second = peak;
  slowest->rates = {std::min(before.product_flops_per_second, gpu.rates->product_flops_per_second),
                    std::min(before.copy_bytes_per_second, gpu.rates->copy_bytes_per_second)};
}

}  // namespace

Gpu GpuOfWorker(const scheduler::Worker& worker) {
  const v1::RegisterRequest& hello = worker.hello;
  if (hello.build().device() != "cuda") return {};
  return GpuOf(hello.device_name(), {.product_flops_per_second = hello.product_flops_per_second(),
                                     .copy_bytes_per_second = hello.copy_bytes_per_second()});
}

WorkerFacts LeastOf(const std::vector<scheduler::Worker>& workers) {
  WorkerFacts facts;
  for (const scheduler::Worker& worker : workers) {
    TakeLeast<uint64_t>(worker.hello.memory_bytes(), &facts.memory_bytes);
    TakeLeast<uint64_t>(worker.hello.host_memory_bytes(), &facts.host_bytes);
    TakeLeast<int64_t>(worker.hello.threads(), &facts.threads);
    TakeLeast<int32_t>(worker.hello.compute_capability(), &facts.compute_capability);
    const Gpu gpu = GpuOfWorker(worker);
    if (!gpu.name.empty()) TakeSlower(gpu, &facts.gpu);
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
