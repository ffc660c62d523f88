// Everything jobs write to the store: batched, in order, durable when asked.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "controller/loop.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// Loop thread only. Additions are committed together within kDelay, or at once by Flush. A commit
// that fails is kept and tried again; nothing is lost or reordered.
class Journal {
 public:
  static constexpr std::chrono::milliseconds kDelay{50};
  static constexpr std::chrono::milliseconds kRetry{1000};

  Journal(Loop* loop, store::Store* store) : loop_(loop), store_(store) {}

  // The batch that the next commit writes. Call Touch after adding to it.
  store::Batch& batch() { return batch_; }
  // Replaces an earlier, uncommitted row of the same job.
  void PutJob(const store::JobRow& row) { dirty_jobs_[row.job.id()] = row; }
  void Touch();
  absl::Status Flush();

  store::Store* store() const { return store_; }
  const absl::Status& last_commit() const { return last_commit_; }
  // Called after every commit with the jobs that got events.
  void OnEvents(std::function<void(const std::set<std::string>&)> listener) {
    listener_ = std::move(listener);
  }
  void OnCommit(std::function<void(double seconds)> observer) { observer_ = std::move(observer); }

 private:
  Loop* const loop_;
  store::Store* const store_;
  store::Batch batch_;
  std::map<std::string, store::JobRow> dirty_jobs_;
  absl::Status last_commit_;
  bool timer_set_ = false;
  std::function<void(const std::set<std::string>&)> listener_;
  std::function<void(double)> observer_;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOURNAL_H_
