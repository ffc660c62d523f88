// Device memory of other ranks of this host, opened through CUDA's inter-process handles.
#ifndef COXSWAIN_WORKER_COMM_PEER_MEMORY_H_
#define COXSWAIN_WORKER_COMM_PEER_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

class PeerMemory {
 public:
  // Every rank of the world calls it, gives a string of one length and gets those of all, by rank.
  using Exchange = std::function<absl::StatusOr<std::vector<std::string>>(const std::string&)>;

  // Every rank calls it. It opens the `regions` of all ranks of this host: as many on each rank, of
  // equal sizes, allocated by cudaMalloc, alive until no rank uses them. Ranks of one machine with
  // another `host_id` are of other hosts. FailedPrecondition, on every rank, when one of them
  // cannot: its message names the rank and why. Other errors are those of `exchange`.
  static absl::StatusOr<std::unique_ptr<PeerMemory>> Open(int rank, const std::string& host_id,
                                                          const std::vector<DeviceRegion>& regions,
                                                          const Exchange& exchange);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  bool IsOpen(int rank) const { return !bases_[static_cast<size_t>(rank)].empty(); }
  // Names the host of each rank, the same on all ranks: some have opened others' memory when two
  // are on one.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // True when [data, data + bytes) is in one of the regions.
  bool Holds(const void* data, int64_t bytes) const { return RegionOf(data, bytes) >= 0; }
  // Gives the place where `rank`, which is open, has what this rank has at `data`, which is held.
  char* Of(int rank, const void* data) const;

 private:
  PeerMemory(int rank, const std::vector<DeviceRegion>& regions) : rank_(rank), regions_(regions) {}
  int RegionOf(const void* data, int64_t bytes) const;
  absl::StatusOr<std::string> Describe(const std::string& host_id) const;
  absl::Status OpenAll(const std::vector<std::string>& records);

  const int rank_;
  const std::vector<DeviceRegion> regions_;
  std::vector<std::vector<char*>> bases_;  // by rank and region; none of ranks of other hosts
  std::vector<std::string> hosts_;         // by rank
};

// Which machine this process runs on.

// The id changes with every start of the machine and is the same in its containers; empty where it
// is not told.
std::string BootId();

// The name is equal for processes that NCCL takes to be of one host: NCCL_HOSTID, or host name and
// boot.
std::string NcclHost();

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_PEER_MEMORY_H_
