// The state of this process's device, for dumps.
#ifndef COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_
#define COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::agent {

// Memory, CPU time and load of this process and its host. `pci_bus` is the PCI address of a GPU
// ("0000:1b:00.0"; empty: none), whose driver is asked too (nvml.h). If the driver does not answer
// within `patience`, the result says so.
nlohmann::json DeviceState(const std::string& pci_bus, std::chrono::milliseconds patience);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_
