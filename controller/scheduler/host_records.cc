#include "controller/scheduler/host_records.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

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
