#include "worker/agent/relay_rendezvous.h"

#include "absl/strings/str_cat.h"

namespace coxswain::agent {

absl::Status RelayRendezvous::Set(const std::string& key, const std::string& value) {
  Deliver(key, value);
  publish_(key, value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RelayRendezvous::Get(const std::string& key,
                                                 std::chrono::milliseconds timeout) {
  MutexLock lock(mu_);
  changed_.WaitFor(lock, timeout, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return cancelled_ || values_.count(key) > 0;
  });
  if (cancelled_) {
    return absl::CancelledError(absl::StrCat("waiting for rendezvous key ", key, ": ", reason_));
  }
  const auto it = values_.find(key);
  if (it == values_.end()) {
    return absl::DeadlineExceededError(absl::StrCat(
        "rendezvous key ", key, " was not set by its rank within ", timeout.count(), " ms"));
  }
  return it->second;
}

void RelayRendezvous::Deliver(const std::string& key, const std::string& value) {
  MutexLock lock(mu_);
  values_[key] = value;
  changed_.NotifyAll();
}

void RelayRendezvous::Cancel(const std::string& reason) {
  MutexLock lock(mu_);
  if (cancelled_) return;
  cancelled_ = true;
  reason_ = reason;
  changed_.NotifyAll();
}

}  // namespace coxswain::agent
