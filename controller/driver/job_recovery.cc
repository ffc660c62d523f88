// What a failure means for the job: its end, another attempt at once or later, or a checkpoint
// less. See ARCHITECTURE.md, "Whose failure it is".
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failure_kind.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"

namespace coxswain::driver {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// The n-th restart waits 0, 1, 2, 4 ... at most 30 seconds.
int64_t BackoffNs(int restarts) {
  if (restarts <= 1) return 0;
  return std::min<int64_t>(int64_t{1} << std::min(restarts - 2, 5), 30) * kSecondNs;
}

// What waits for storage or machines tries again after 5, 10, 20 ... at most 300 seconds.
int64_t HeldUpNs(int times) {
  return std::min<int64_t>(int64_t{5} << std::min(times, 6), 300) * kSecondNs;
}

bool Waits(const v1::Error& error) {
  return error.kind() == v1::ERROR_KIND_STORAGE || error.kind() == v1::ERROR_KIND_HOST;
}

// Why no further attempt is made; empty: one is.
std::string BudgetSpent(const state::JobStatus& status, const config::JobSpec& spec) {
  if (status.restarts_since_checkpoint >= spec.max_restarts) {
    return absl::StrCat(" (gave up after ", spec.max_restarts,
                        " restarts without a new checkpoint, resources.max_restarts)");
  }
  if (status.restarts >= spec.max_restarts_total) {
    return absl::StrCat(" (gave up after ", spec.max_restarts_total,
                        " restarts in the job's life, resources.max_restarts_total)");
  }
  return "";
}

}  // namespace

// Where no gang has ever trained, a path or a size is the user's to set right, and told at once. A
// disk that is full or broken is not, nor is the controller's own store.
v1::Error JobDriver::Judged(v1::Error error) const {
  const bool has_run = job().started_unix_ms() != 0 || !job().checkpoints().empty();
  const bool full = error.code() == "RESOURCE_EXHAUSTED" || error.code() == "DATA_LOSS";
  const bool disk = error.phase() == "store" || (error.phase() == "output" && full);
  if (Waits(error) && !has_run && !disk) error.set_kind(v1::ERROR_KIND_USER);
  return error;
}

// Invariant driver-7. A rank found a damaged block in the checkpoint that it loaded: the next
// attempt passes it over.
bool JobDriver::SetAside(const v1::Error& error) {
  const bool names_it =
      !resumed_from_.empty() && error.message().find(resumed_from_ + "/") != std::string::npos;
  if (error.code() != "DATA_LOSS" || error.phase() != "prepare" || !names_it) return false;
  return damaged_.emplace(resumed_from_, error.message()).second;
}

void JobDriver::AttemptFailed(const v1::Error& found) {
  const bool set_aside = SetAside(found);
  const v1::Error error = set_aside ? found : Judged(found);
  record_.AddEvent(AttemptFailedEvent(gang_ ? gang_->epoch : 0, error), Describe(error));
  const bool draining = phase() == v1::JOB_STATE_DRAINING;
  if (!draining && !Waits(error)) {
    const int32_t restarts = record_.status().restarts;
    const std::string spent =
        error.kind() == v1::ERROR_KIND_USER ? "" : BudgetSpent(record_.status(), spec_);
    if (error.kind() == v1::ERROR_KIND_USER || !spent.empty()) {
      v1::Error last = error;
      last.set_message(absl::StrCat(error.message(), spent));
      Fail(last, restarts == 0 ? std::string("failed")
                               : absl::StrCat("failed after ", restarts, " restarts"));
      return;
    }
  }
  TearDown(Describe(error));
  Retry(error, draining, /*at_once=*/set_aside);
  CommitJournal();
  if (phase() == v1::JOB_STATE_QUEUED) {
    KeepWorkers();
    Prepare();
  }
  hooks_.reschedule();
}

void JobDriver::Retry(const v1::Error& error, bool draining, bool at_once) {
  const bool waits = Waits(error);
  std::string reason = "to be tried again from the last checkpoint";
  if (waits) reason = absl::StrCat("waits: ", FailureSubject(error.kind()));
  if (at_once) reason = "to be tried again from the checkpoint before";
  if (draining) {
    reason = waits ? "drained without a checkpoint: the steps since the last one are done again"
                   : "drained by force";
  }
  const absl::Status status =
      record_.Apply(waits ? state::JobEvent::kHeldUp : state::JobEvent::kAttemptFailed, reason);
  if (!status.ok() || phase() != v1::JOB_STATE_RECOVERING) return;
  deps_.metrics->Restart(job().id(), error.phase());
  if (!waits || keep_until_ns_ == 0) KeepWorkers();
  if (at_once) return WaitAfter(error, 0);
  WaitAfter(error,
            waits ? HeldUpNs(held_up_++) : BackoffNs(record_.status().restarts_since_checkpoint));
}

void JobDriver::WaitAfter(const v1::Error& error, int64_t wait_ns) {
  not_before_ns_ = deps_.loop->clock().NowNs() + wait_ns;
  record_.SetBack(error, deps_.loop->clock().UnixMs() + wait_ns / 1'000'000);
  deps_.loop->After(std::chrono::milliseconds(wait_ns / 1'000'000 + 1),
                    lifetime_.Wrap([this] { TryAgain(); }));
}

void JobDriver::TryAgain() {
  if (deps_.loop->clock().NowNs() < not_before_ns_) return;  // paused and failed again meanwhile
  if (phase() == v1::JOB_STATE_EXPORTING) {
    Export();
  } else if (phase() == v1::JOB_STATE_RECOVERING && curriculum_ == nullptr) {
    Prepare();
  } else {
    hooks_.reschedule();
  }
}

void JobDriver::KeepWorkers() {
  const std::chrono::milliseconds time = deps_.settings.keep_workers;
  keep_until_ns_ = deps_.loop->AttentiveNs() + std::chrono::nanoseconds(time).count();
  deps_.loop->Deadline(time + std::chrono::milliseconds(1),
                       keep_lifetime_.Wrap([this] { hooks_.reschedule(); }));
}

bool JobDriver::KeepsWorkers() const {
  switch (phase()) {
    case v1::JOB_STATE_QUEUED:
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_RECOVERING:
      return deps_.loop->AttentiveNs() < keep_until_ns_;
    default:
      return false;
  }
}

void JobDriver::PreparationFailed(const absl::Status& status) {
  const v1::Error error = Judged(MakeError(status, {.phase = "prepare_data"}));
  if (Waits(error)) {
    AttemptFailed(error);
  } else {
    Fail(error);
  }
}

// Storage that fails a checkpoint costs the job that checkpoint, unless nothing is trained after it
// or it is the best one, which is to be exported.
void JobDriver::SaveFailed(int64_t step, const v1::Error& error) {
  DestroyLater(saver_);
  if (error.kind() != v1::ERROR_KIND_STORAGE) {
    AttemptFailed(error);
    return;
  }
  if (spec_.test_save && step == 1) {
    v1::Error last = error;
    last.set_message(absl::StrCat("checkpoint.test_save: the checkpoint of step 1 could not be ",
                                  "saved and read back: ", error.message()));
    Fail(last);
    return;
  }
  const std::optional<checkpoint::EvalPoint>& best = run_->state().early_stop.best;
  const bool is_best = spec_.early_stopping_patience && best && best->step == step;
  const bool cancelled = record_.status().drain_goal == v1::JOB_STATE_CANCELLED;
  const bool goes_on = cancelled || (!is_best && !run_->at_end());
  deps_.metrics->CheckpointFailed(job().id());
  record_.AddEvent(
      CheckpointFailedEvent(step, error),
      absl::StrCat(
          "checkpoint of step ", step, " failed: ", Describe(error),
          goes_on ? ". Training goes on, the next checkpoint is tried when it is due" : ""));
  ObserveOutput();
  if (!goes_on) {
    AttemptFailed(error);
    return;
  }
  CommitJournal();
  run_->SaveFinished();
}

// All steps are done: only the files are made again, with no gang.
void JobDriver::ExportFailed(const absl::Status& status) {
  const v1::Error error = MakeError(status, {.phase = "export"});
  if (!Waits(error)) {
    Fail(error);
    return;
  }
  const int64_t wait_ns = HeldUpNs(held_up_++);
  record_.AddEvent(ExportFailedEvent(error),
                   absl::StrCat(Describe(error), ". Tried again in ", wait_ns / kSecondNs, " s"));
  WaitAfter(error, wait_ns);
  CommitJournal();
}

void JobDriver::Fail(const v1::Error& error) {
  Fail(error, absl::StrCat("failed: ", Describe(error)));
}

void JobDriver::Fail(const v1::Error& error, const std::string& reason) {
  TearDown(Describe(error));
  *record_.edit().mutable_error() = error;
  record_.Apply(state::JobEvent::kFailed, reason).IgnoreError();  // non-terminal states take it
  lifetime_.Reset();
  CommitJournal();
  hooks_.reschedule();
}

// Ends the gang without its consent. Every rank is told to abort and is free when it says so.
void JobDriver::TearDown(const std::string& reason) {
  lifetime_.Reset();
  deps_.loop->CancelTimer(drain_timer_);
  DestroyLater(formation_);
  DestroyLater(saver_);
  if (gang_ != nullptr) {
    for (int rank = 0; rank < gang_->world_size(); ++rank) {
      const std::string& incarnation = gang_->ranks[rank].target.incarnation;
      if (gang_->epoch == 0) {  // reserved, never told
        deps_.registry->Released(incarnation);
      } else {
        deps_.registry->AbortAndFree(incarnation, gang_->FenceOf(rank), reason);
      }
    }
    if (auto next = state::Transition(gang_->status, state::GangEvent::kAbortRequested);
        next.ok()) {
      gang_->status = *next;
    }
  }
  // The gang goes last: run and saver look at it until they are gone.
  auto dead = std::make_pair(std::move(gang_), std::move(run_));
  gang_.reset();
  run_.reset();
  deps_.loop->Post([dead] {});
}

}  // namespace coxswain::driver
