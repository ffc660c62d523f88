// What is remembered of hosts: how often they failed, how fast the links between them are.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_HOST_RECORDS_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_HOST_RECORDS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/scheduler/worker.h"

namespace coxswain::scheduler {

// Counts how often each host has failed jobs lately, and says when that is too often. Pure: the
// caller gives the time.

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

// Measured speeds of links between workers, for the plans of later gangs. Gangs are alike when they
// have the same release and device, and equal numbers of ranks and hosts.

// "16 ranks on 2 hosts, 0.1.0 cuda NVIDIA H200": equal for gangs that are alike.
std::string GangKind(const std::vector<Worker>& gang);

class LinkTable {
 public:
  // Keeps the first measurement, so that equal jobs get equal plans. `links` is empty when nothing
  // was measured. True: this was the first; the caller stores it.
  bool Remember(const std::vector<Worker>& gang, const std::vector<plan::LinkSpeed>& links);
  // Adds a point that was stored; in ascending order of bytes.
  void Restore(const std::string& gang_kind, const plan::LinkSpeed& link);
  // Empty when no such gang was measured.
  std::vector<plan::LinkSpeed> Find(const std::vector<Worker>& gang) const;

 private:
  std::map<std::string, std::vector<plan::LinkSpeed>> links_;
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_HOST_RECORDS_H_
