// Host memory for snapshots: whether it may be page-locked.
#ifndef COXSWAIN_CONTROLLER_PLANNER_SNAPSHOT_MEMORY_H_
#define COXSWAIN_CONTROLLER_PLANNER_SNAPSHOT_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// What a copy from the device to host memory is assumed to reach, page-locked and through slices.
inline constexpr double kPinnedCopyBytesPerSecond = 40e9, kSlicedCopyBytesPerSecond = 8e9;

// Decides plan->snapshot_in_slices by what the snapshots of the ranks of one host (as
// WorkerResources says) take of its `host_bytes` of memory (0: unknown, enough): at most half of it
// is page-locked. Returns a sentence of what slices cost; empty: none.
// ResourceExhausted, with both numbers, where they take more than four fifths of it.
absl::StatusOr<std::string> PlaceSnapshots(uint64_t host_bytes,
                                           const std::vector<int32_t>& ranks_of_hosts,
                                           plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_SNAPSHOT_MEMORY_H_
