// Tells open Watch and Logs calls that a job has news.
#ifndef COXSWAIN_CONTROLLER_API_EVENT_HUB_H_
#define COXSWAIN_CONTROLLER_API_EVENT_HUB_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace coxswain::api {

// Loop thread only.
class EventHub {
 public:
  // `callback` runs after commits with events of `job`, as long as the returned token lives.
  std::shared_ptr<void> Listen(const std::string& job, std::function<void()> callback) {
    auto entry = std::make_shared<std::function<void()>>(std::move(callback));
    listeners_.emplace(job, entry);
    return entry;
  }
  void Notify(const std::set<std::string>& jobs) {
    std::vector<std::shared_ptr<std::function<void()>>> live;
    for (auto it = listeners_.begin(); it != listeners_.end();) {
      auto entry = it->second.lock();
      if (entry && jobs.contains(it->first)) live.push_back(entry);
      it = entry ? std::next(it) : listeners_.erase(it);
    }
    for (const auto& entry : live) (*entry)();
  }

 private:
  std::multimap<std::string, std::weak_ptr<std::function<void()>>> listeners_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_EVENT_HUB_H_
