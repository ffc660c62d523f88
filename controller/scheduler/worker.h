// A worker as the controller knows it.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_WORKER_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_WORKER_H_

#include <cstdint>
#include <string>

#include "controller/state/worker_state.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::scheduler {

struct Worker {
  WorkerTarget target;
  v1::RegisterRequest hello;
  state::WorkerStatus status;
  int64_t last_beat_ns = 0;   // by Loop::AttentiveNs, as a lease
  v1::HeartbeatRequest beat;  // the last one
  uint64_t beat_stream = 0;   // newest heartbeat stream; the end of an older one means nothing
  std::string job;            // empty when free
  std::string last_job;       // the newest that it worked for, empty: none
  int32_t rank = -1;
  std::string cordoned = {};   // why it gets no new job, empty: it may have one
  int64_t abort_since_ns = 0;  // while ABORTING: when it was first told
  // The newest controller term that it was told. It is not raised while the worker has a job,
  // because the worker would then refuse messages of its gang that are under way.
  uint64_t told_term = 0;
};

inline bool IsLost(const Worker& worker) {
  return worker.status.phase == state::WorkerPhase::kLost;
}

// A worker that asked to be registered and was refused: its request, and the reason.
struct RefusedWorker {
  v1::RegisterRequest hello;
  std::string reason;
  int64_t since_ns = 0;  // of the newest try, by Loop::AttentiveNs
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_WORKER_H_
