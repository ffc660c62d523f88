// The state of a GPU by NVIDIA's management library. The library is loaded at the first question,
// so a host without GPUs needs none.
#ifndef COXSWAIN_WORKER_AGENT_NVML_H_
#define COXSWAIN_WORKER_AGENT_NVML_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coxswain::agent {

// Fields that this GPU does not report are empty.
struct GpuState {
  std::string problem = {};                         // why nothing is known; empty: it is
  std::optional<int64_t> busy_percent = {};         // of the last sample period, some kernel ran
  std::optional<int64_t> memory_busy_percent = {};  // ... memory was read or written
  std::optional<int64_t> memory_used_bytes = {}, memory_total_bytes = {};
  std::optional<int64_t> sm_clock_mhz = {}, most_sm_clock_mhz = {}, memory_clock_mhz = {};
  std::optional<int64_t> throttle_reasons = {};  // bits of nvmlClocksEventReasons
  std::optional<int64_t> power_milliwatts = {}, temperature_celsius = {};
  // Since the driver was loaded.
  std::optional<int64_t> energy_millijoules = {};
  std::optional<int64_t> corrected_ecc_errors = {}, uncorrected_ecc_errors = {};
  std::vector<std::string> xid_lines =
      {};  // newest of the kernel's log, where this process may read it
};

// `pci_bus` as "0000:1b:00.0". Any thread may call it. It takes milliseconds; the first call up to
// a second; forever if the driver hangs.
GpuState ReadGpu(const std::string& pci_bus);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_NVML_H_
