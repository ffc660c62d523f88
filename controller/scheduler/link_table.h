// What links between workers were measured to reach, for the plans of later gangs. Gangs are alike
// when they have the same device, as many ranks and as many hosts.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::scheduler {

struct Worker;

class LinkTable {
 public:
  // Keeps the first measurement, so that equal jobs get equal plans. `links` may be empty: nothing
  // was measured.
  void Remember(const std::vector<Worker>& gang, std::vector<plan::LinkSpeed> links);
  // Empty when no such gang was measured.
  std::vector<plan::LinkSpeed> Find(const std::vector<Worker>& gang) const;

 private:
  std::map<std::string, std::vector<plan::LinkSpeed>> links_;
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_LINK_TABLE_H_
