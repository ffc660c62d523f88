// Starts, watches and restarts the worker processes of one host.
#ifndef COXSWAIN_WORKER_SUPERVISOR_SUPERVISOR_H_
#define COXSWAIN_WORKER_SUPERVISOR_SUPERVISOR_H_

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "worker/supervisor/restart_policy.h"
#include "worker/supervisor/stack_taker.h"

namespace coxswain::supervisor {

struct SupervisorOptions {
  int workers = 1;
  std::function<std::vector<std::string>(int slot)> command;  // program and its arguments
  std::string state_dir;                                      // stacks are written here
  std::chrono::milliseconds grace{30000};                     // from SIGTERM to SIGKILL
  // A worker that gave signs of life and then none for so long is killed; 0: never.
  std::chrono::milliseconds silence{30000};
  RestartPolicy restart;
  int stopped_exit_code = 0;  // returned instead of 0 when a signal ended Run
  // Called at every turn of the loop, at least once a second, with the processes by slot; 0: none
  // runs.
  std::function<void(const std::vector<pid_t>& pids)> on_turn;
};

// The thread of Run starts the workers. They get SIGKILL when that thread ends (PR_SET_PDEATHSIG).
// Each gets the argument --life-sign and a pipe to write to (worker/agent/life_sign.h).
class Supervisor {
 public:
  // The constructor blocks the signals that Run handles, so that threads started later leave them
  // to Run.
  explicit Supervisor(SupervisorOptions options);

  // Runs until SIGTERM or SIGINT has stopped every worker, or every worker has ended with an exit
  // code that forbids a restart. Returns the exit code: 0 or stopped_exit_code; the first such code
  // that is not 0; 1 after SIGKILL. SIGQUIT writes the native stacks of every worker.
  int Run();

  // Any thread. If the process `pid` is still the worker in the 0-based `slot`, Run soon writes its
  // stacks, kills it, and starts another one.
  void EndWorker(int slot, pid_t pid, const std::string& reason);

  // All readings of its workers' stacks go through here.
  StackTaker& stacks() { return stacks_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    int slot = 0;
    pid_t pid = 0;        // 0: not running
    int life_signs = -1;  // read end of its pipe while it runs
    Silence::LastSign last_sign;
    bool killed = false;  // killed and not yet reaped
    Clock::time_point started;
    std::optional<Clock::time_point> next_start;
    Failures failures;
  };

  struct Order {
    int slot = 0;
    pid_t pid = 0;
    std::string reason;
  };

  void Start(Worker& worker);
  void CannotStart(Worker& worker, const char* call);
  void ObeyOrders();
  void KillSilent();
  bool GaveSign(const Worker& worker) const;
  void Kill(Worker& worker, const std::string& reason);
  void Reap();
  void Ended(Worker& worker, int wait_status);
  void Stop(int signal);
  void KillLate();
  void WriteStacks(const Worker& worker);
  std::chrono::milliseconds UntilNextTurn() const;
  std::vector<pid_t> Pids() const;
  bool AllEnded() const;

  const SupervisorOptions options_;
  sigset_t signals_;
  std::vector<Worker> workers_;
  std::optional<Clock::time_point> stop_deadline_;  // set once stopping
  Silence silence_;
  StackTaker stacks_;
  int exit_code_ = 0;
  Mutex mu_;
  std::vector<Order> orders_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_SUPERVISOR_H_
