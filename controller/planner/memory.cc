#include "controller/planner/memory.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace coxswain::planner {

MemoryByClass SumByClass(const std::vector<plan::Buffer>& buffers) {
  MemoryByClass sum;
  for (const plan::Buffer& buffer : buffers) {
    const auto bytes = static_cast<uint64_t>(buffer.bytes);
    switch (buffer.memory_class) {
      case plan::MemoryClass::kWeights:
        sum.weights += bytes;
        break;
      case plan::MemoryClass::kGradients:
        sum.gradients += bytes;
        break;
      case plan::MemoryClass::kOptimizer:
        sum.optimizer += bytes;
        break;
      case plan::MemoryClass::kActivations:
        sum.activations += bytes;
        break;
      case plan::MemoryClass::kWorkspace:
        sum.workspace += bytes;
        break;
      case plan::MemoryClass::kHost:
        sum.host += bytes;
        break;
    }
  }
  return sum;
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", value < 10 ? 2 : 1, value, units[unit]);
}

}  // namespace coxswain::planner
