// How often each host has failed jobs lately, and whether that is too often. Pure: time is given.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace coxswain::scheduler {

// In memory only: a controller that starts counts anew.
class HostFailures {
 public:
  // So many failures within so long, and the host is left out.
  static constexpr int kMost = 3;
  static constexpr std::chrono::hours kWindow{1};

  // One more, at a time that never falls. True: this one makes it too many, and it counts anew.
  bool Add(const std::string& host, int64_t now_ns);
  void Forget(const std::string& host) { failures_.erase(host); }

 private:
  std::map<std::string, std::deque<int64_t>> failures_;  // times within the window, by host
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_HOST_FAILURES_H_
