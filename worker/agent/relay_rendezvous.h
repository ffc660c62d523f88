// Rendezvous of an epoch's ranks through the controller: keys set here go out on the Connect
// stream, keys of the other ranks come in on it.
#ifndef COXSWAIN_WORKER_AGENT_RELAY_RENDEZVOUS_H_
#define COXSWAIN_WORKER_AGENT_RELAY_RENDEZVOUS_H_

#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "worker/comm/collectives.h"

namespace coxswain::agent {

class RelayRendezvous : public comm::Rendezvous {
 public:
  using Publish = std::function<void(const std::string& key, const std::string& value)>;
  explicit RelayRendezvous(Publish publish) : publish_(std::move(publish)) {}

  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key,
                                  std::chrono::milliseconds timeout) override;

  void Deliver(const std::string& key, const std::string& value);  // another rank's key
  void Cancel(const std::string& reason);  // every Get, also a waiting one, gives Cancelled

 private:
  const Publish publish_;
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::string reason_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_RELAY_RENDEZVOUS_H_
