// Decides when an ended worker is started again. Pure: no clock, no process.
#ifndef COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_
#define COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_

#include <chrono>
#include <optional>

namespace coxswain::supervisor {

struct RestartPolicy {
  std::chrono::milliseconds first_delay{500};
  std::chrono::milliseconds last_delay{30000};
  std::chrono::milliseconds healthy_after{60000};  // a life this long forgives earlier failures
};

// Consecutive short lives of one worker.
struct Failures {
  int count = 0;
};

// The delay before the next start of a worker that lived for `lived` and ended with waitpid's
// `wait_status`. None: do not start the worker again, after exit 0 (drained), 64 (bad
// configuration) or 77 (refused).
std::optional<std::chrono::milliseconds> NextStart(const RestartPolicy& policy, int wait_status,
                                                   std::chrono::milliseconds lived,
                                                   Failures* failures);

// Exit code, or 128 + signal.
int ExitCode(int wait_status);

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RESTART_POLICY_H_
