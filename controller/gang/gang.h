// The ranks of one epoch, and what a gang is run with.
#ifndef COXSWAIN_CONTROLLER_GANG_GANG_H_
#define COXSWAIN_CONTROLLER_GANG_GANG_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/runtime/files.h"
#include "controller/runtime/loop.h"
#include "controller/runtime/metrics.h"
#include "controller/scheduler/registry.h"
#include "controller/state/gang_state.h"
#include "controller/transport/fan_out.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::gang {

// The ranks of one epoch: who they are and how messages to them are fenced.
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

// The controller's own records of a rank, whatever that rank says.
struct RankView {
  std::string phase = {};       // of its worker: "RUNNING"; "gone": it is not registered any more
  bool suspect = false;         // its heartbeat is late
  double beat_age_seconds = 0;  // of its newest heartbeat
  v1::HeartbeatRequest beat = {};  // that one; empty when it was of no command of this gang
  uint64_t answered_seq = 0;       // newest command that it has answered, 0: none
  double silent_seconds = 0;       // since that answer, or since the gang runs
  int in_flight = 0;               // commands that were sent to all, and some rank has not answered
  int credits = 0;                 // so many at most, as of now
};

// Settings of running gangs: deadlines and waits.
struct Settings {
  // Commands in flight per worker, 1..8; more of them, up to 8, while they are less work than
  // `ahead`, so that no rank waits where the loop hangs in its store. One is never more.
  int credits = 2;
  std::chrono::milliseconds ahead{1500};
  std::chrono::milliseconds prepare_timeout{600000};  // a rank that loads gets on with nothing
  std::chrono::milliseconds connect_timeout{120000};
  // In the first two steps: no answer, and no rank gets on.
  std::chrono::milliseconds first_step_timeout{300000};
  std::chrono::milliseconds hang_floor{30000};       // later: max(this, 5 x median step)
  std::chrono::milliseconds collective_floor{7000};  // in one: max(this, 2 x median step)
  std::chrono::milliseconds drain_floor{30000};      // drain: max(this, 5 x median step)
};

// The services that a gang uses. controller/server.cc, or a test, owns them and outlives the gang.
struct Deps {
  Loop* loop = nullptr;
  Files* files = nullptr;
  WorkerTransport* transport = nullptr;
  FanOut* fan_out = nullptr;
  scheduler::Registry* registry = nullptr;
  Metrics* metrics = nullptr;
  Settings settings;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_GANG_H_
