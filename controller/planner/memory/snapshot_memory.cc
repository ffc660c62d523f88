#include "controller/planner/memory/snapshot_memory.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/format.h"
#include "controller/planner/memory/memory.h"

namespace coxswain::planner {

absl::StatusOr<std::string> PlaceSnapshots(uint64_t host_bytes,
                                           const std::vector<int32_t>& ranks_of_hosts,
                                           plan::Plan* plan) {
  const uint64_t per_rank = PlannedMemory(*plan).host;
  const int32_t ranks = ranks_of_hosts.empty()
                            ? plan->world_size()
                            : *std::max_element(ranks_of_hosts.begin(), ranks_of_hosts.end());
  const uint64_t need = per_rank * static_cast<uint64_t>(ranks), have = host_bytes;
  if (plan->device != DeviceKind::kCuda || have == 0 || need <= have / 2) return std::string();
  if (need > have / 5 * 4) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "host memory: the snapshots of %d ranks of a host take %s (%d bytes). At most four fifths "
        "of its %s (%d bytes) may be used: take hosts with more memory, or fewer ranks of each",
        ranks, FormatBytes(need), need, FormatBytes(have), have));
  }
  plan->snapshot_in_slices = true;
  const auto bytes = static_cast<double>(per_rank);
  return absl::StrFormat(
      "the snapshots of %d ranks of a host take %s, more than half of its %s: they are not "
      "page-locked, and are copied in slices. The copy is assumed to take %.1f s instead of %.1f "
      "s; an update waits for the part that forward and backward do not cover",
      ranks, FormatBytes(need), FormatBytes(have), bytes / kSlicedCopyBytesPerSecond,
      bytes / kPinnedCopyBytesPerSecond);
}

}  // namespace coxswain::planner
