// Bytes of a plan by class, and how they are shown.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Bytes that buffers own, by class.
struct MemoryByClass {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  uint64_t host = 0;  // beside the device's
  // Of the device; on the CPU everything.
  uint64_t total() const { return weights + gradients + optimizer + activations + workspace; }
};

MemoryByClass SumByClass(const std::vector<plan::Buffer>& buffers);

// "1.50 GiB", "12.0 MiB", "900 B".
std::string FormatBytes(uint64_t bytes);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_H_
