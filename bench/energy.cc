#include "bench/energy.h"

#include <utility>

#include "worker/agent/nvml.h"

namespace coxswain::bench {

using Clock = std::chrono::steady_clock;

EnergyMeter::EnergyMeter(std::string pci_bus)
    : pci_bus_(std::move(pci_bus)), begin_(Millijoules()), began_(Clock::now()) {}

std::optional<int64_t> EnergyMeter::Millijoules() const {
  if (pci_bus_.empty()) return std::nullopt;
  return agent::ReadGpu(pci_bus_).energy_millijoules;
}

std::optional<double> EnergyMeter::Watts() const {
  const std::optional<int64_t> now = Millijoules();
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (!now || !begin_ || seconds <= 0) return std::nullopt;
  return 1e-3 * static_cast<double>(*now - *begin_) / seconds;
}

}  // namespace coxswain::bench
