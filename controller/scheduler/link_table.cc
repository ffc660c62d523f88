#include "controller/scheduler/link_table.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::scheduler {

std::string GangKind(const std::vector<Worker>& gang) {
  std::set<std::string> hosts, devices;
  for (const Worker& worker : gang) {
    hosts.insert(worker.hello.host());
    devices.insert(absl::StrCat(worker.hello.build().version(), " ", worker.hello.build().device(),
                                " ", worker.hello.device_name()));
  }
  std::string kind = absl::StrCat(gang.size(), " ranks on ", hosts.size(), " hosts");
  for (const std::string& device : devices) absl::StrAppend(&kind, ", ", device);
  return kind;
}

bool LinkTable::Remember(const std::vector<Worker>& gang,
                         const std::vector<plan::LinkSpeed>& links) {
  return !links.empty() && links_.try_emplace(GangKind(gang), links).second;
}

void LinkTable::Restore(const std::string& gang_kind, const plan::LinkSpeed& link) {
  links_[gang_kind].push_back(link);
}

std::vector<plan::LinkSpeed> LinkTable::Find(const std::vector<Worker>& gang) const {
  const auto found = links_.find(GangKind(gang));
  return found == links_.end() ? std::vector<plan::LinkSpeed>() : found->second;
}

}  // namespace coxswain::scheduler
