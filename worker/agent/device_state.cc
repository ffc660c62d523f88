#include "worker/agent/device_state.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "worker/agent/nvml.h"

namespace coxswain::agent {
namespace {

using nlohmann::json;

int64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  return in >> whole >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void AddHost(json* state) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  double load = 0;
  getloadavg(&load, 1);
  (*state)["resident_bytes"] = ResidentBytes();
  (*state)["most_resident_bytes"] = used.ru_maxrss * int64_t{1024};
  (*state)["cpu_seconds"] = Seconds(used.ru_utime) + Seconds(used.ru_stime);
  (*state)["host_load"] = load;
}

json GpuJson(const GpuState& gpu) {
  json out = json::object();
  const auto add = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) out[name] = *value;
  };
  if (!gpu.problem.empty()) out["problem"] = gpu.problem;
  add("busy_percent", gpu.busy_percent);
  add("memory_busy_percent", gpu.memory_busy_percent);
  add("memory_used_bytes", gpu.memory_used_bytes);
  add("memory_total_bytes", gpu.memory_total_bytes);
  add("sm_clock_mhz", gpu.sm_clock_mhz);
  add("most_sm_clock_mhz", gpu.most_sm_clock_mhz);
  add("memory_clock_mhz", gpu.memory_clock_mhz);
  add("throttle_reasons", gpu.throttle_reasons);
  add("power_milliwatts", gpu.power_milliwatts);
  add("energy_millijoules", gpu.energy_millijoules);
  add("temperature_celsius", gpu.temperature_celsius);
  add("corrected_ecc_errors", gpu.corrected_ecc_errors);
  add("uncorrected_ecc_errors", gpu.uncorrected_ecc_errors);
  if (!gpu.xid_lines.empty()) out["xid"] = gpu.xid_lines;
  return out;
}

}  // namespace

json DeviceState(const std::string& pci_bus, std::chrono::milliseconds patience) {
  json state = json::object();
  AddHost(&state);
  if (pci_bus.empty()) return state;
  // A driver may hang for ever: then its thread is left to it.
  auto read = std::make_shared<std::promise<GpuState>>();
  auto gpu = read->get_future();
  std::thread([read, pci_bus] { read->set_value(ReadGpu(pci_bus)); }).detach();
  if (gpu.wait_for(patience) == std::future_status::ready) {
    state["gpu"] = GpuJson(gpu.get());
  } else {
    state["gpu"]["problem"] =
        "its driver has said nothing within " + std::to_string(patience.count()) + " ms";
  }
  return state;
}

}  // namespace coxswain::agent
