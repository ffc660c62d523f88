#include "controller/driver/journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "controller/driver/make_events.h"

namespace coxswain::driver {

void Journal::PutJob(const store::JobRow& row) {
  if (!row.unreadable.empty()) return;
  const auto [known, added] = job_at_.try_emplace(row.job.id(), batch_.jobs.size());
  if (added) {
    batch_.jobs.push_back(row);
  } else {
    batch_.jobs[known->second] = row;
  }
  Touch();
}

void Journal::PutPosition(store::PositionRow row) {
  const auto [known, added] = position_at_.try_emplace(row.job, batch_.positions.size());
  if (added) batch_.positions.emplace_back();
  batch_.positions[known->second] = std::move(row);
  Touch();
}

void Journal::Touch() {
  if (timer_set_) return;
  timer_set_ = true;
  loop_->After(kDelay, lifetime_.Wrap([this] {
    timer_set_ = false;
    FlushOrKeep();
  }));
}

void Journal::RetryLater() {
  if (timer_set_) return;
  timer_set_ = true;
  loop_->After(kRetry, lifetime_.Wrap([this] {
    timer_set_ = false;
    FlushOrKeep();
  }));
}

void Journal::Clear() {
  batch_ = store::Batch();
  job_at_.clear();
  position_at_.clear();
}

absl::Status Journal::Flush() {
  if (batch_.empty()) return absl::OkStatus();
  const int64_t began_ns = loop_->clock().NowNs();
  last_commit_ = store_->Commit(batch_);
  if (!last_commit_.ok()) {
    log::Error("store commit failed, kept for another try",
               {{"error", std::string(last_commit_.message())},
                {"events", static_cast<int64_t>(batch_.events.size())},
                {"steps", static_cast<int64_t>(batch_.steps.size())}});
    Bound();
    RetryLater();
    return last_commit_;
  }
  if (observer_) observer_(static_cast<double>(loop_->clock().NowNs() - began_ns) * 1e-9);
  std::set<std::string> jobs;
  for (const v1::JobEvent& event : batch_.events) jobs.insert(event.job());
  std::vector<v1::JobEvent> warnings = TakeLossWarnings();
  Clear();
  if (!warnings.empty()) {
    batch_.events = std::move(warnings);
    Touch();
  }
  if (listener_ && !jobs.empty()) listener_(jobs);
  return absl::OkStatus();
}

absl::Status Journal::Transact(absl::FunctionRef<absl::Status()> decide) {
  const auto not_taken = [](const absl::Status& status) {
    return absl::UnavailableError(absl::StrCat(
        "nothing was changed, because the controller's store took no write: ", status.message(),
        ". Try again once it does"));
  };
  // What waits goes first: the batch is then this decision's alone.
  if (const absl::Status status = Flush(); !status.ok()) return not_taken(status);
  const std::vector<v1::JobEvent> waiting = batch_.events;  // TakeLossWarnings' alone
  absl::Status status = decide();
  const bool refused = !status.ok();
  if (!refused) status = Flush();
  if (status.ok()) return status;
  Clear();
  batch_.events = waiting;
  return refused ? status : not_taken(status);
}

absl::Status Journal::Submit(const store::JobRow& row, const v1::JobEvent& event,
                             const store::KeyRow& key) {
  return Transact([&] {
    PutJob(row);
    Add(event);
    if (!key.key.empty()) Append(&batch_.keys, key);
    return absl::OkStatus();
  });
}

// What is dropped first is what users miss least: a step that was not seen passing.
void Journal::Bound() {
  int64_t events = 0, steps = 0;
  if (batch_.events.size() > kMostEvents) {
    size_t excess = batch_.events.size() - kMostEvents / 2;
    const auto dropped =
        std::remove_if(batch_.events.begin(), batch_.events.end(), [&](const v1::JobEvent& event) {
          if (excess == 0 || event.type() != "StepDone") return false;
          --excess;
          ++events;
          ++missing_[event.job()].events;
          return true;
        });
    batch_.events.erase(dropped, batch_.events.end());
  }
  if (batch_.steps.size() > kMostSteps) {
    const auto end = batch_.steps.end() - kMostSteps / 2;
    for (auto row = batch_.steps.begin(); row != end; ++row) ++missing_[row->job].steps;
    steps = end - batch_.steps.begin();
    batch_.steps.erase(batch_.steps.begin(), end);
  }
  if (events + steps == 0) return;
  log::Warning("the store takes no writes: the oldest step events and rows that wait were dropped",
               {{"events", events}, {"steps", steps}});
  if (dropped_observer_) dropped_observer_(events, steps);
}

std::vector<v1::JobEvent> Journal::TakeLossWarnings() {
  std::vector<v1::JobEvent> warnings;
  for (const auto& [job, missing] : std::exchange(missing_, {})) {
    const auto at = job_at_.find(job);
    if (at == job_at_.end()) continue;  // deleted since
    v1::JobEvent& warning = warnings.emplace_back(DroppedWarning(missing.events, missing.steps));
    warning.set_job(job);
    warning.set_time_unix_ms(loop_->clock().UnixMs());
    warning.set_message(absl::StrCat("the controller's store took no writes for a while: ",
                                     missing.events, " StepDone events and ", missing.steps,
                                     " records of steps were dropped; the steps were trained"));
    warning.set_state(batch_.jobs[at->second].job.state());
  }
  return warnings;
}

}  // namespace coxswain::driver
