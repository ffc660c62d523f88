// Measured speeds of links between workers, for the plans of later gangs. Gangs are alike when they
// have the same release and device, and equal numbers of ranks and hosts.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/scheduler/worker.h"

namespace coxswain::scheduler {

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

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_
