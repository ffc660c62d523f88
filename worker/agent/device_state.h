// How the device of this process is, for dumps.
#ifndef COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_
#define COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::agent {

// Memory, CPU time and load of this process and its host and, with the address of a GPU on the PCI
// bus ("0000:1b:00.0"; empty: none), what its driver tells (nvml.h). A driver that has said nothing
// within `patience` is told of by name.
nlohmann::json DeviceState(const std::string& pci_bus, std::chrono::milliseconds patience);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_DEVICE_STATE_H_
