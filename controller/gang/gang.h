// The ranks of one epoch: who they are and how messages to them are fenced.
#ifndef COXSWAIN_CONTROLLER_GANG_GANG_H_
#define COXSWAIN_CONTROLLER_GANG_GANG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/state/gang_state.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::gang {

struct Rank {
  WorkerTarget target;
  std::string host;
  v1::MemoryBytes memory = {};  // allocated, from Prepare
  double peak_flops = 0;        // dense bfloat16 operations per second of its device; 0: not known
  bool maps_tokens = false;     // commands may carry document ids, from Prepare
};

struct Gang {
  std::string store;  // store::Store::Id
  std::string job;
  uint64_t term = 0;  // when it was admitted or readopted; it keeps that
  uint64_t epoch = 0;
  std::string plan_hash;  // 32 bytes
  std::string plan_bytes;
  std::vector<Rank> ranks;
  state::GangStatus status;
  std::vector<plan::LinkSpeed> links;  // measured, of the slowest rank at each point; may be empty
  std::string fingerprint;      // equal on all ranks, empty until prepared, whole once formed
  std::string gemm_table;       // of rank 0, used by all; empty until prepared, on the CPU
  int64_t start_step = 0;       // finished steps of the checkpoint that it loads
  int64_t applied_updates = 0;  // of these, from Prepare

  // Dense bfloat16 operations per second of all ranks; 0: that of one is not known.
  double PeakFlops() const;
  int world_size() const { return static_cast<int>(ranks.size()); }
  v1::Fence SharedFence() const;  // without the incarnation
  v1::Fence FenceOf(int rank) const;
  // True when `fence` is exactly that of `rank` in this epoch.
  bool IsCurrent(const v1::Fence& fence, int rank) const;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_GANG_H_
