// Decides whether host memory for snapshots is page-locked.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_SNAPSHOT_MEMORY_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_SNAPSHOT_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Assumed rates of copies from the device: to page-locked host memory, and through slices.
inline constexpr double kPinnedCopyBytesPerSecond = 40e9, kSlicedCopyBytesPerSecond = 8e9;

// Sets plan->snapshot_in_slices when the snapshots of one host's ranks need more than half of its
// `host_bytes` of memory (0: unknown, enough), because at most half is page-locked.
// `ranks_of_hosts` as in WorkerResources. Returns a sentence about the cost of slices; empty
// without slices. ResourceExhausted, with both numbers, when snapshots need more than four fifths
// of the host's memory.
absl::StatusOr<std::string> PlaceSnapshots(uint64_t host_bytes,
                                           const std::vector<int32_t>& ranks_of_hosts,
                                           plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_SNAPSHOT_MEMORY_H_
