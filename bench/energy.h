// What a GPU uses while something runs, by the counter of its driver.
#ifndef COXSWAIN_BENCH_ENERGY_H_
#define COXSWAIN_BENCH_ENERGY_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace coxswain::bench {

// The counter goes on every tenth of a second or so: what is measured should take seconds.
class EnergyMeter {
 public:
  // From now on. `pci_bus` as kernels::DeviceDescription has it; empty: a CPU, which has no meter.
  explicit EnergyMeter(std::string pci_bus);

  // Watts on average until now; nothing where the driver does not tell.
  std::optional<double> Watts() const;

 private:
  std::optional<int64_t> Millijoules() const;

  const std::string pci_bus_;
  const std::optional<int64_t> begin_;
  const std::chrono::steady_clock::time_point began_;
};

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_ENERGY_H_
