#include "worker/agent/nvml.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

namespace coxswain::agent {
namespace {

constexpr char kLibrary[] = "libnvidia-ml.so.1";
constexpr size_t kXidLines = 8;

// As nvml.h declares them. 0 is success.
using Device = void*;
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
constexpr int kCorrected = 0, kUncorrected = 1, kSinceLoaded = 0;

class Library {
 public:
  Library() : handle_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      problem_ = std::string(kLibrary) + " cannot be loaded";
    } else if (int code = 0; !Call("nvmlInit_v2", &code)) {
      problem_ = "nvmlInit_v2 failed with " + std::to_string(code);
    }
  }
  const std::string& problem() const { return problem_; }

  // False, with what it returned, where it fails or is not there.
  template <typename... Args>
  bool Call(const char* name, int* code, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(handle_, name));
    *code = function == nullptr ? -1 : function(args...);
    return *code == 0;
  }
  // What a function writes behind its last argument, a Value.
  template <typename Value, typename... Args>
  std::optional<Value> Get(const char* name, Args... args) const {
    Value value{};
    int code = 0;
    if (!Call(name, &code, args..., &value)) return std::nullopt;
    return value;
  }
  template <typename Value, typename... Args>
  std::optional<int64_t> Number(const char* name, Args... args) const {
    const std::optional<Value> value = Get<Value>(name, args...);
    if (!value) return std::nullopt;
    return static_cast<int64_t>(*value);
  }

 private:
  void* const handle_;  // for as long as the process lives
  std::string problem_;
};

void ReadRates(const Library& nvml, Device gpu, GpuState* state) {
  if (const auto rates = nvml.Get<Utilization>("nvmlDeviceGetUtilizationRates", gpu)) {
    state->busy_percent = rates->gpu;
    state->memory_busy_percent = rates->memory;
  }
  if (const auto memory = nvml.Get<Memory>("nvmlDeviceGetMemoryInfo", gpu)) {
    state->memory_used_bytes = static_cast<int64_t>(memory->used);
    state->memory_total_bytes = static_cast<int64_t>(memory->total);
  }
}

void ReadClocksAndErrors(const Library& nvml, Device gpu, GpuState* state) {
  using Count = unsigned long long;
  state->sm_clock_mhz = nvml.Number<unsigned>("nvmlDeviceGetClockInfo", gpu, kSmClock);
  state->most_sm_clock_mhz = nvml.Number<unsigned>("nvmlDeviceGetMaxClockInfo", gpu, kSmClock);
  state->memory_clock_mhz = nvml.Number<unsigned>("nvmlDeviceGetClockInfo", gpu, kMemoryClock);
  state->throttle_reasons = nvml.Number<Count>("nvmlDeviceGetCurrentClocksThrottleReasons", gpu);
  state->power_milliwatts = nvml.Number<unsigned>("nvmlDeviceGetPowerUsage", gpu);
  state->energy_millijoules = nvml.Number<Count>("nvmlDeviceGetTotalEnergyConsumption", gpu);
  state->temperature_celsius =
      nvml.Number<unsigned>("nvmlDeviceGetTemperature", gpu, kGpuTemperature);
  state->corrected_ecc_errors =
      nvml.Number<Count>("nvmlDeviceGetTotalEccErrors", gpu, kCorrected, kSinceLoaded);
  state->uncorrected_ecc_errors =
      nvml.Number<Count>("nvmlDeviceGetTotalEccErrors", gpu, kUncorrected, kSinceLoaded);
}

// "NVRM: Xid (PCI:0000:1b:00): 79, ..." is how the kernel's log names the device.
std::vector<std::string> XidLines(const std::string& pci_bus) {
  std::string device = pci_bus.substr(0, pci_bus.rfind('.'));
  std::transform(device.begin(), device.end(), device.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> lines;
  const int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char record[8192];
  for (ssize_t n = 0; log >= 0 && (n = read(log, record, sizeof(record))) > 0;) {
    const std::string line(record, static_cast<size_t>(n));
    const size_t text = line.find(';');
    if (line.find("Xid (PCI:" + device) == std::string::npos || text == std::string::npos) continue;
    lines.push_back(line.substr(text + 1, line.find('\n') - text - 1));
    if (lines.size() > kXidLines) lines.erase(lines.begin());
  }
  if (log >= 0) close(log);
  return lines;
}

}  // namespace

GpuState ReadGpu(const std::string& pci_bus) {
  static const Library nvml;
  GpuState state{.problem = nvml.problem()};
  if (!state.problem.empty()) return state;
  const auto gpu = nvml.Get<Device>("nvmlDeviceGetHandleByPciBusId_v2", pci_bus.c_str());
  if (!gpu) {
    state.problem = "the driver knows no GPU at " + pci_bus;
    return state;
  }
  ReadRates(nvml, *gpu, &state);
  ReadClocksAndErrors(nvml, *gpu, &state);
  state.xid_lines = XidLines(pci_bus);
  return state;
}

}  // namespace coxswain::agent
