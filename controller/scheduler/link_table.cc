#include "controller/scheduler/link_table.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/scheduler/registry.h"

namespace coxswain::scheduler {
namespace {

std::string KindOf(const std::vector<Worker>& gang) {
  std::set<std::string> hosts, devices;
  for (const Worker& worker : gang) {
    hosts.insert(worker.hello.host());
    devices.insert(absl::StrCat(worker.hello.build().device(), " ", worker.hello.device_name()));
  }
  std::string kind = absl::StrCat(gang.size(), " ranks on ", hosts.size(), " hosts");
  for (const std::string& device : devices) absl::StrAppend(&kind, ", ", device);
  return kind;
}

}  // namespace

void LinkTable::Remember(const std::vector<Worker>& gang, std::vector<plan::LinkSpeed> links) {
  if (!links.empty()) links_.try_emplace(KindOf(gang), std::move(links));
}

std::vector<plan::LinkSpeed> LinkTable::Find(const std::vector<Worker>& gang) const {
  const auto found = links_.find(KindOf(gang));
  return found == links_.end() ? std::vector<plan::LinkSpeed>() : found->second;
}

}  // namespace coxswain::scheduler
