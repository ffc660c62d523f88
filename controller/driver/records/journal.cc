#include "controller/driver/records/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {

// Rows on their way to the store. The lane writes them, or the loop where that cannot wait until
// the lane comes to it; the other one has nothing to do then.
class Journal::Writing {
 public:
  Writing(const Clock* clock, store::Store* store, Rows rows)
      : clock_(clock), store_(store), rows_(std::move(rows)) {}

  // Any thread. Nothing where another one has begun.
  void Write() {
    {
      MutexLock lock(mu_);
      if (std::exchange(begun_, true)) return;
    }
    const int64_t began_ns = clock_->NowNs();
    status_ = Guarded([this] { return store_->Commit(rows_.batch); });
    seconds_ = static_cast<double>(clock_->NowNs() - began_ns) * 1e-9;
    MutexLock lock(mu_);
    over_ = true;
    over_changed_.NotifyAll();
  }

  // They are written, or cannot be, when it returns.
  void WriteOrWait() {
    Write();
    MutexLock lock(mu_);
    over_changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return over_; });
  }

  // After WriteOrWait.
  const absl::Status& status() const { return status_; }
  double seconds() const { return seconds_; }
  Rows& rows() { return rows_; }

 private:
  const Clock* const clock_;
  store::Store* const store_;
  Rows rows_;
  absl::Status status_;
  double seconds_ = 0;
  Mutex mu_;
  CondVar over_changed_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
};

Journal::Journal(Loop* loop, store::Store* store) : loop_(loop), store_(store) {}
Journal::~Journal() = default;

void Journal::PutJob(const store::JobRow& row) {
  if (!row.unreadable.empty()) return;
  const auto [known, added] = rows_.job_at.try_emplace(row.job.id(), rows_.batch.jobs.size());
  if (added) {
    rows_.batch.jobs.push_back(row);
  } else {
    rows_.batch.jobs[known->second] = row;
  }
  Touch();
}

void Journal::PutPosition(store::PositionRow row) {
  const auto [known, added] = rows_.position_at.try_emplace(row.job, rows_.batch.positions.size());
  if (added) rows_.batch.positions.emplace_back();
  rows_.batch.positions[known->second] = std::move(row);
  Touch();
}

void Journal::Touch() { CommitAfter(kDelay); }

void Journal::CommitAfter(std::chrono::milliseconds delay) {
  if (timer_set_) return;
  timer_set_ = true;
  loop_->After(delay, lifetime_.Wrap([this] {
    timer_set_ = false;
    Write();
  }));
}

// What is added meanwhile goes with the next one.
void Journal::Write() {
  if (writing_ != nullptr || rows_.batch.empty()) return;
  writing_ = std::make_shared<Writing>(&loop_->clock(), store_, std::exchange(rows_, Rows()));
  loop_->Offload(
      Lane::kStore, [writing = writing_] { writing->Write(); },
      lifetime_.Wrap([this, writing = writing_] {
        if (writing_ == writing) Settle().IgnoreError();  // else Flush has
      }));
}

absl::Status Journal::Settle() {
  if (writing_ == nullptr) return absl::OkStatus();
  writing_->WriteOrWait();
  const std::shared_ptr<Writing> written = std::exchange(writing_, nullptr);
  const absl::Status status = written->status();
  if (status.ok()) {
    if (observer_) observer_(written->seconds());
    OnWritten(written->rows());
    return absl::OkStatus();
  }
  PutBack(std::move(written->rows()));
  log::Error("store commit failed, kept for another try",
             {{"error", std::string(status.message())},
              {"events", static_cast<int64_t>(rows_.batch.events.size())},
              {"steps", static_cast<int64_t>(rows_.batch.steps.size())}});
  Bound();
  CommitAfter(kRetry);
  return status;
}

void Journal::OnWritten(const Rows& rows) {
  std::set<std::string> jobs;
  for (const v1::JobEvent& event : rows.batch.events) jobs.insert(event.job());
  for (v1::JobEvent& warning : TakeLossWarnings(rows)) {
    rows_.batch.events.push_back(std::move(warning));
  }
  if (!rows_.batch.empty()) Touch();
  if (listener_ && !jobs.empty()) listener_(jobs);
}

// In front of what was added since.
void Journal::PutBack(Rows before) {
  Rows since = std::exchange(rows_, std::move(before));
  const auto append = [](auto& rows, auto& more) {
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  };
  store::Batch& batch = rows_.batch;
  append(batch.new_jobs, since.batch.new_jobs);
  for (const store::JobRow& row : since.batch.jobs) PutJob(row);
  for (store::PositionRow& row : since.batch.positions) PutPosition(std::move(row));
  append(batch.epochs, since.batch.epochs);
  append(batch.plans, since.batch.plans);
  append(batch.evals, since.batch.evals);
  append(batch.steps, since.batch.steps);
  append(batch.checkpoints, since.batch.checkpoints);
  append(batch.keys, since.batch.keys);
  append(batch.links, since.batch.links);
  append(batch.cordons, since.batch.cordons);
  append(batch.tokens, since.batch.tokens);
  append(batch.events, since.batch.events);
  append(batch.deleted_jobs, since.batch.deleted_jobs);
}

absl::Status Journal::Flush() {
  RETURN_IF_ERROR(Settle());
  if (rows_.batch.empty()) return absl::OkStatus();
  writing_ = std::make_shared<Writing>(&loop_->clock(), store_, std::exchange(rows_, Rows()));
  return Settle();
}

absl::Status Journal::Transact(absl::FunctionRef<absl::Status()> decide) {
  const auto not_taken = [](const absl::Status& status) {
    if (absl::IsAlreadyExists(status)) return status;
    return absl::UnavailableError(absl::StrCat(
        "nothing was changed, because the controller's store took no write: ", status.message(),
        ". Try again once it does"));
  };
  // What waits goes first: the batch is then this decision's alone.
  if (const absl::Status status = Flush(); !status.ok()) return not_taken(status);
  const std::vector<v1::JobEvent> waiting = rows_.batch.events;  // TakeLossWarnings' alone
  absl::Status status = decide();
  const bool refused = !status.ok();
  if (!refused) status = Flush();
  if (status.ok()) return status;
  rows_ = Rows();
  rows_.batch.events = waiting;
  return refused ? status : not_taken(status);
}

absl::Status Journal::Submit(const store::JobRow& row, const v1::JobEvent& event,
                             const store::KeyRow& key) {
  return Transact([&] {
    Append(&rows_.batch.new_jobs, row);
    Add(event);
    if (!key.key.empty()) Append(&rows_.batch.keys, key);
    return absl::OkStatus();
  });
}

// What is dropped first is what users miss least: a step that was not seen passing.
void Journal::Bound() {
  store::Batch& batch = rows_.batch;
  int64_t events = 0, steps = 0;
  if (batch.events.size() > kMostEvents) {
    size_t excess = batch.events.size() - kMostEvents / 2;
    const auto dropped =
        std::remove_if(batch.events.begin(), batch.events.end(), [&](const v1::JobEvent& event) {
          if (excess == 0 || event.type() != "StepDone") return false;
          --excess;
          ++events;
          ++missing_[event.job()].events;
          return true;
        });
    batch.events.erase(dropped, batch.events.end());
  }
  if (batch.steps.size() > kMostSteps) {
    const auto end = batch.steps.end() - kMostSteps / 2;
    for (auto row = batch.steps.begin(); row != end; ++row) ++missing_[row->job].steps;
    steps = end - batch.steps.begin();
    batch.steps.erase(batch.steps.begin(), end);
  }
  if (events + steps == 0) return;
  log::Warning("the store takes no writes: the oldest step events and rows that wait were dropped",
               {{"events", events}, {"steps", steps}});
  if (dropped_observer_) dropped_observer_(events, steps);
}

std::vector<v1::JobEvent> Journal::TakeLossWarnings(const Rows& written) {
  std::vector<v1::JobEvent> warnings;
  for (const auto& [job, missing] : std::exchange(missing_, {})) {
    const auto at = written.job_at.find(job);
    if (at == written.job_at.end()) continue;  // deleted since
    v1::JobEvent& warning = warnings.emplace_back(DroppedWarning(missing.events, missing.steps));
    warning.set_job(job);
    warning.set_time_unix_ms(loop_->clock().UnixMs());
    warning.set_message(absl::StrCat("the controller's store took no writes for a while: ",
                                     missing.events, " StepDone events and ", missing.steps,
                                     " records of steps were dropped; the steps were trained"));
    warning.set_state(written.batch.jobs[at->second].job.state());
  }
  return warnings;
}

}  // namespace coxswain::driver
