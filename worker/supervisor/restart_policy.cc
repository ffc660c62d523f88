#include "worker/supervisor/restart_policy.h"

#include <sys/wait.h>

#include <algorithm>

namespace coxswain::supervisor {
namespace {

constexpr std::chrono::seconds kLongStall{1}, kAfterStall{5};

}  // namespace

void Silence::BeginTurn(Clock::time_point now) {
  stalled_ = turn_ ? std::max(Clock::duration::zero(), now - *turn_ - longest_turn_)
                   : Clock::duration::zero();
  turn_ = now;
  if (stalled_ >= kLongStall) stall_end_ = now;
}

bool Silence::JustStalled() const { return stall_end_ && *turn_ - *stall_end_ < kAfterStall; }

bool Silence::TooLong(bool gave_sign, LastSign* last) const {
  if (gave_sign) {
    *last = {.at = *turn_, .given = true};
    return false;
  }
  if (limit_.count() == 0) return false;
  last->at += stalled_;
  return *turn_ - last->at >= (last->given ? limit_ : kLoading * limit_);
}

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
