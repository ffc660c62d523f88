#include "controller/driver/job_driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace coxswain::driver {

JobDriver::JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks)
    : deps_(deps),
      record_(deps.loop, deps.journal, deps.metrics, std::move(row)),
      spec_(std::move(spec)),
      hooks_(std::move(hooks)) {}

JobDriver::~JobDriver() {
  if (prepare_cancelled_) prepare_cancelled_->store(true);
}

void JobDriver::CommitJournal() {
  deps_.journal->Flush().IgnoreError();  // kept and tried again by the journal
}

void JobDriver::TakeUp(bool after_restart) {
  if (after_restart) {
    const bool had_gang = phase() != v1::JOB_STATE_PREPARING && phase() != v1::JOB_STATE_READY &&
                          phase() != v1::JOB_STATE_QUEUED;
    record_.Apply(state::JobEvent::kControllerRestarted, "the controller restarted")
        .IgnoreError();           // every state takes it
    if (had_gang) KeepWorkers();  // nothing unless the job is QUEUED
    CommitJournal();
  }
  if (phase() == v1::JOB_STATE_QUEUED) Prepare();
  if (phase() == v1::JOB_STATE_EXPORTING) Export();
}

void JobDriver::Refuse(const absl::Status& status) {
  if (!state::IsTerminal(phase())) Fail(MakeError(status, {.phase = "recover"}));
}

absl::Status JobDriver::Pause() {
  const v1::JobState before = phase();
  RETURN_IF_ERROR(record_.Decide(state::JobEvent::kPauseRequested, "pause requested"));
  keep_until_ns_ = 0;
  if (before == v1::JOB_STATE_PREPARING) {
    prepare_cancelled_->store(true);
    lifetime_.Reset();
  } else if (before == v1::JOB_STATE_ADMITTED || before == v1::JOB_STATE_FORMING) {
    TearDown("paused");
  } else if (before == v1::JOB_STATE_RUNNING) {
    DrainDeadline();
    run_->Drain(/*with_snapshot=*/true);
  }
  CommitJournal();
  hooks_.reschedule();
  return absl::OkStatus();
}

absl::Status JobDriver::Cancel() {
  const v1::JobState before = phase();
  RETURN_IF_ERROR(record_.Decide(state::JobEvent::kCancelRequested, "cancel requested"));
  if (phase() == v1::JOB_STATE_DRAINING) {
    DrainDeadline();
    run_->Drain(/*with_snapshot=*/false);
  } else {
    if (prepare_cancelled_) prepare_cancelled_->store(true);
    if (before == v1::JOB_STATE_ADMITTED || before == v1::JOB_STATE_FORMING) TearDown("cancelled");
    lifetime_.Reset();
  }
  CommitJournal();
  hooks_.reschedule();
  return absl::OkStatus();
}

absl::Status JobDriver::Resume(int64_t steps) {
  if (steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps must be 0 (until the end) or more, got ", steps));
  }
  RETURN_IF_ERROR(record_.Decide(
      state::JobEvent::kResumed,
      steps > 0 ? absl::StrCat("resumed for ", steps, " steps") : std::string("resumed"),
      steps > 0 ? job().progress().step() + steps : 0));
  keep_until_ns_ = not_before_ns_ = 0;  // whoever resumes need not wait
  held_up_ = 0;
  Prepare();
  return absl::OkStatus();
}

bool JobDriver::WantsWorkers() const {
  return (phase() == v1::JOB_STATE_READY || phase() == v1::JOB_STATE_RECOVERING) &&
         !letting_output_go_ &&  // paused and resumed at once
         curriculum_ != nullptr && deps_.loop->clock().NowNs() >= not_before_ns_;
}

void JobDriver::WorkerLost(const std::string& incarnation, const std::string& reason) {
  if (gang_ == nullptr) return;
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    if (gang_->ranks[rank].target.incarnation != incarnation) continue;
    const absl::Status status = absl::UnavailableError(absl::StrCat("worker lost: ", reason));
    if (run_ != nullptr) {
      run_->RankFailed(rank, status);
    } else {
      AttemptFailed(MakeError(status, {rank, gang_->ranks[rank].host, "form"}));
    }
    return;
  }
}

void JobDriver::WorkerDraining(const std::string& worker) {
  const absl::Status status = record_.Apply(
      state::JobEvent::kPreempted, absl::StrCat("worker ", worker, " is leaving: draining"));
  if (!status.ok()) return;  // its gang is ending
  if (phase() == v1::JOB_STATE_DRAINING) {
    DrainDeadline();
    run_->Drain(/*with_snapshot=*/true);
    CommitJournal();
    return;
  }
  TearDown(absl::StrCat("worker ", worker, " is leaving"));  // nothing was trained: form without it
  KeepWorkers();
  CommitJournal();
  Prepare();
  hooks_.reschedule();
}

}  // namespace coxswain::driver
