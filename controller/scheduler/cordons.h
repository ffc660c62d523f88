// Which workers get no new job although they live, and why.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_CORDONS_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_CORDONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coxswain::scheduler {

struct Cordon {
  std::string target;         // id of a worker, "<host>/<slot>", or a host: all of its workers
  std::string reason;         // for people, never empty
  int64_t since_unix_ms = 0;  // milliseconds since 1970
  bool automatic = false;     // the host failed too often; else a user asked for it
};

class Cordons {
 public:
  // Replaces an older one of the same target.
  void Set(Cordon cordon);
  void Lift(const std::string& target);  // nothing when there is none
  // The cordon of exactly that target; null: none.
  const Cordon* Find(const std::string& target) const;
  // The cordon that covers the worker, by its id or its host; null: it may have jobs.
  const Cordon* Covering(const std::string& worker_id, const std::string& host) const;
  std::vector<Cordon> All() const;  // by target

 private:
  std::map<std::string, Cordon> cordons_;  // by target
};

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_CORDONS_H_
