// A rendezvous for ranks that are threads of one process.
#ifndef COXSWAIN_TESTS_WORKER_COMM_IN_PROCESS_RENDEZVOUS_H_
#define COXSWAIN_TESTS_WORKER_COMM_IN_PROCESS_RENDEZVOUS_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

class InProcessRendezvous : public Rendezvous {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    std::lock_guard<std::mutex> lock(mu_);
    values_[key] = value;
    changed_.notify_all();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(const std::string& key,
                                  std::chrono::milliseconds timeout) override {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_for(lock, timeout, [&] { return cancelled_ || values_.count(key) > 0; });
    if (cancelled_) return absl::CancelledError(absl::StrCat("key ", key, ": epoch aborted"));
    const auto it = values_.find(key);
    if (it == values_.end()) {
      return absl::DeadlineExceededError(
          absl::StrCat("key ", key, " was not set within ", timeout.count(), " ms"));
    }
    return it->second;
  }

  void Cancel() {
    std::lock_guard<std::mutex> lock(mu_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool cancelled_ = false;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_IN_PROCESS_RENDEZVOUS_H_
