// Counts how often each host has failed jobs lately, and says when that is too often. Pure: the
// caller gives the time.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace coxswain::scheduler {

// It lives in memory only: a controller that starts counts from 0.
class HostFailures {
 public:
  // A host is left out after kMost failures within the window.
  static constexpr int kMost = 3;
  static constexpr std::chrono::hours kWindow{1};

  // Counts a failure. `now_ns` never falls. True: the host has reached kMost; its count starts
  // again.
  bool Add(const std::string& host, int64_t now_ns);
  void Forget(const std::string& host) { failures_.erase(host); }

 private:
  std::map<std::string, std::deque<int64_t>> failures_;  // times within the window, by host
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_
