// How a plan uses a worker's memory: micro-batch, recompute level, LM-head chunk, buffer table.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Bytes that buffers own, by class.
struct MemoryByClass {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  uint64_t host = 0;  // not in the total: it is not the device's
  uint64_t total() const { return weights + gradients + optimizer + activations + workspace; }
};

MemoryByClass SumByClass(const std::vector<plan::Buffer>& buffers);

// "1.50 GiB", "12.0 MiB", "900 B".
std::string FormatBytes(uint64_t bytes);

struct LayoutLimits {
  int64_t global_batch_bins = 1;
  uint64_t memory_bytes = 0;  // per worker; 0: no limit
};

// Fills micro_batch_bins, recompute, lm_head_chunk_tokens and buffers of a plan whose other fields
// are final. Values the job sets are kept; `auto` prefers no recomputation, then the largest
// micro-batch that fits (on the CPU at most 4,096 tokens, more does not run faster) cut so that
// micro-steps are equal. ResourceExhausted names need by class, limit, and changes that would fit.
absl::Status ChooseLayout(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_
