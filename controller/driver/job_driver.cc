#include "controller/driver/job_driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

failure::StageLimits LimitsOf(const Settings& settings) {
  return {.suspect = settings.verdict_window,
          .dump = settings.dump_timeout,
          .abort = scheduler::Registry::kAbortPatience,
          .respawn = settings.respawn,
          .keep = settings.keep_workers};
}

}  // namespace

JobDriver::JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks)
    : deps_(deps),
      record_(deps.loop, deps.journal, deps.metrics, std::move(row)),
      spec_(std::move(spec)),
      hooks_(std::move(hooks)),
      output_(deps, record_.id(), spec_.output_dir,
              [this](const absl::Status& lost) {
                if (session_ == nullptr) return;
                AttemptFailed(failure::MakeError(
                    absl::UnavailableError(std::string(lost.message())), {.phase = "output"}));
              }),
      checkpoints_(deps, &record_, &spec_),
      recovery_(deps.loop, LimitsOf(deps.settings),
                {.entered = [this](state::RecoveryStage stage,
                                   std::chrono::milliseconds limit) { OnStage(stage, limit); },
                 .time_over = [this](state::RecoveryStage stage) { OnStageOver(stage); },
                 .try_again = [this] { TryAgain(); },
                 .kept = [this] { hooks_.reschedule(); }}) {}

JobDriver::~JobDriver() {
  if (prepare_cancelled_) prepare_cancelled_->store(true);
}

bool JobDriver::Advance(state::JobEvent event, const std::string& reason,
                        const std::vector<std::string>& reserved) {
  const absl::Status status = record_.Apply(event, reason, reserved);
  if (status.ok()) return true;
  Fail(failure::MakeBug(absl::InternalError(status.message()), {.phase = "state"}));
  return false;
}

void JobDriver::TakeUp(bool after_restart) {
  if (after_restart) {
    const bool had_gang = phase() != v1::JOB_STATE_PREPARING && phase() != v1::JOB_STATE_READY &&
                          phase() != v1::JOB_STATE_QUEUED;
    if (!Advance(state::JobEvent::kControllerRestarted, "the controller restarted")) return;
    if (had_gang) recovery_.Keep();  // nothing unless the job is QUEUED
    deps_.journal->FlushOrKeep();
  }
  if (phase() == v1::JOB_STATE_QUEUED) Prepare();
  if (phase() == v1::JOB_STATE_EXPORTING) Export();
}

void JobDriver::Refuse(const absl::Status& status) {
  if (!state::IsTerminal(phase())) Fail(failure::MakeError(status, {.phase = "recover"}));
}

absl::Status JobDriver::Pause() {
  const v1::JobState before = phase();
  RETURN_IF_ERROR(record_.Decide(state::JobEvent::kPauseRequested, "pause requested"));
  recovery_.KeepNoMore();
  if (before == v1::JOB_STATE_PREPARING) {
    prepare_cancelled_->store(true);
    lifetime_.Reset();
  } else if (before == v1::JOB_STATE_RUNNING) {
    session_->Drain(/*with_checkpoint=*/true);
  }
  if (phase() == v1::JOB_STATE_PAUSED) EndAttempt("paused");
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
  return absl::OkStatus();
}

absl::Status JobDriver::Cancel() {
  RETURN_IF_ERROR(record_.Decide(state::JobEvent::kCancelRequested, "cancel requested"));
  if (phase() == v1::JOB_STATE_DRAINING) {
    session_->Drain(/*with_checkpoint=*/false);
  } else {
    if (prepare_cancelled_) prepare_cancelled_->store(true);
    lifetime_.Reset();
    EndAttempt("cancelled");
  }
  deps_.journal->FlushOrKeep();
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
  recovery_.KeepNoMore();
  recovery_.WaitNoMore();  // whoever resumes need not wait
  held_up_ = 0;
  Prepare();
  return absl::OkStatus();
}

bool JobDriver::WantsWorkers() const {
  return (phase() == v1::JOB_STATE_READY || phase() == v1::JOB_STATE_RECOVERING) &&
         !output_.letting_go() &&  // paused and resumed at once
         curriculum_ != nullptr && !recovery_.Waits();
}

void JobDriver::WorkerLost(const std::string& incarnation, const std::string& reason) {
  if (session_ != nullptr) session_->WorkerLost(incarnation, reason);
}

void JobDriver::WorkerDraining(const std::string& worker) {
  const absl::Status status = record_.Apply(
      state::JobEvent::kPreempted, absl::StrCat("worker ", worker, " is leaving: draining"));
  if (!status.ok()) return;  // its gang is ending
  if (phase() == v1::JOB_STATE_DRAINING) {
    session_->Drain(/*with_checkpoint=*/true);
    deps_.journal->FlushOrKeep();
    return;
  }
  EndAttempt(
      absl::StrCat("worker ", worker, " is leaving"));  // nothing was trained: form without it
  recovery_.Keep();
  deps_.journal->FlushOrKeep();
  Prepare();
  hooks_.reschedule();
}

bool JobDriver::HoldsOutput() const {
  if (output_.letting_go()) return true;
  switch (phase()) {
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_FORMING:
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_DRAINING:
    case v1::JOB_STATE_RECOVERING:
    case v1::JOB_STATE_EXPORTING:
      return true;
    default:
      return false;
  }
}

void JobDriver::LetOutputGo() {
  if (HoldsOutput()) return;
  output_.LetGo([this] { hooks_.reschedule(); });
}

}  // namespace coxswain::driver
