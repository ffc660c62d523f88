#include "controller/driver/journal.h"

#include <utility>

#include "common/logging.h"

namespace coxswain::driver {

void Journal::Touch() {
  if (timer_set_) return;
  timer_set_ = true;
  loop_->After(kDelay, lifetime_.Wrap([this] {
    timer_set_ = false;
    Flush().IgnoreError();  // kept and tried again
  }));
}

absl::Status Journal::Flush() {
  store::Batch batch = batch_;
  for (const auto& [id, row] : dirty_jobs_) batch.jobs.push_back(row);
  if (batch.empty()) return absl::OkStatus();
  const int64_t began_ns = loop_->clock().NowNs();
  last_commit_ = store_->Commit(batch);
  if (!last_commit_.ok()) {
    log::Error("store commit failed, kept for another try",
               {{"error", std::string(last_commit_.message())}});
    if (!timer_set_) {
      timer_set_ = true;
      loop_->After(kRetry, lifetime_.Wrap([this] {
        timer_set_ = false;
        Flush().IgnoreError();  // kept and tried again
      }));
    }
    return last_commit_;
  }
  batch_ = store::Batch();
  dirty_jobs_.clear();
  if (observer_) observer_(static_cast<double>(loop_->clock().NowNs() - began_ns) * 1e-9);
  std::set<std::string> jobs;
  for (const v1::JobEvent& event : batch.events) jobs.insert(event.job());
  if (listener_ && !jobs.empty()) listener_(jobs);
  return absl::OkStatus();
}

}  // namespace coxswain::driver
