#include "controller/scheduler/host_failures.h"

namespace coxswain::scheduler {

bool HostFailures::Add(const std::string& host, int64_t now_ns) {
  std::deque<int64_t>& times = failures_[host];
  const int64_t begin_ns = now_ns - std::chrono::nanoseconds(kWindow).count();
  while (!times.empty() && times.front() <= begin_ns) times.pop_front();
  times.push_back(now_ns);
  if (static_cast<int>(times.size()) < kMost) return false;
  Forget(host);
  return true;
}

}  // namespace coxswain::scheduler
