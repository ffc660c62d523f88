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
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait_for(lock, timeout, [&] { return cancelled_ || values_.count(key) > 0; });
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
  std::lock_guard<std::mutex> lock(mu_);
  values_[key] = value;
  changed_.notify_all();
}

void RelayRendezvous::Cancel(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mu_);
  if (cancelled_) return;
  cancelled_ = true;
  reason_ = reason;
  changed_.notify_all();
}

}  // namespace coxswain::agent
