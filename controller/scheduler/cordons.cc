#include "controller/scheduler/cordons.h"

#include <utility>

namespace coxswain::scheduler {

void Cordons::Set(Cordon cordon) {
  const std::string target = cordon.target;
  cordons_.insert_or_assign(target, std::move(cordon));
}

void Cordons::Lift(const std::string& target) { cordons_.erase(target); }

const Cordon* Cordons::Find(const std::string& target) const {
  const auto it = cordons_.find(target);
  return it == cordons_.end() ? nullptr : &it->second;
}

const Cordon* Cordons::Covering(const std::string& worker_id, const std::string& host) const {
  const Cordon* of_host = Find(host);
  return of_host != nullptr ? of_host : Find(worker_id);
}

std::vector<Cordon> Cordons::All() const {
  std::vector<Cordon> all;
  for (const auto& [target, cordon] : cordons_) all.push_back(cordon);
  return all;
}

}  // namespace coxswain::scheduler
