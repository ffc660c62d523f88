#include "worker/supervisor/restart_policy.h"

#include <sys/wait.h>

#include <algorithm>

namespace coxswain::supervisor {

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::optional<std::chrono::milliseconds> NextStart(const RestartPolicy& policy, int wait_status,
                                                   std::chrono::milliseconds lived,
                                                   Failures* failures) {
  const int code = ExitCode(wait_status);
  if (code == 0 || code == 64 || code == 77) return std::nullopt;
  if (lived >= policy.healthy_after) failures->count = 0;
  const int doublings = std::min(failures->count++, 20);
  return std::min(policy.first_delay * (int64_t{1} << doublings), policy.last_delay);
}

}  // namespace coxswain::supervisor
