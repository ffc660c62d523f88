// The health service that a container's probes ask about a supervisor and its workers.
#ifndef COXSWAIN_WORKER_SUPERVISOR_HEALTH_H_
#define COXSWAIN_WORKER_SUPERVISOR_HEALTH_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/net/health_server.h"

namespace coxswain::supervisor {

// Two services of grpc.health.v1:
//   coxswain.v1.Supervisor  SERVING while the supervisor's loop turns. Use it for the liveness
//                           probe. It ignores training, so that no probe kills a hung worker
//                           whose stacks are wanted.
//   coxswain.v1.Worker      SERVING while every worker is registered with the controller.
// Threads started here inherit the signal mask: block the supervisor's signals before Start.
class Health {
 public:
  // A turn of the supervisor's loop may take up to `stall_limit` (reading the stacks of a process
  // takes 10 s).
  static absl::StatusOr<std::unique_ptr<Health>> Start(const std::string& address,
                                                       std::string state_dir,
                                                       std::chrono::milliseconds stall_limit);
  ~Health();

  // The supervisor's loop calls this at every turn with its processes by slot; 0: none runs.
  void Turn(const std::vector<pid_t>& pids);
  std::string address() const { return server_->address(); }

 private:
  Health(std::string state_dir, std::chrono::milliseconds stall_limit)
      : state_dir_(std::move(state_dir)), stall_limit_(stall_limit) {}
  void Watch();
  bool AllRegistered(const std::vector<pid_t>& pids) const;

  const std::string state_dir_;
  const std::chrono::milliseconds stall_limit_;
  std::unique_ptr<HealthServer> server_;
  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::chrono::steady_clock::time_point last_turn_ ABSL_GUARDED_BY(mu_) =
      std::chrono::steady_clock::now();
  std::vector<pid_t> pids_ ABSL_GUARDED_BY(mu_);
  std::thread watcher_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_HEALTH_H_
