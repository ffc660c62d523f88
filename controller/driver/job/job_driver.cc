#include "controller/driver/job/job_driver.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

JobDriver::JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks)
    : deps_(deps),
      record_(deps.loop, deps.journal, deps.metrics, std::move(row)),
      spec_(std::move(spec)),
      hooks_(std::move(hooks)),
      context_{.deps = deps_,
               .record = record_,
               .spec = spec_,
               .output = output_,
               .hooks = hooks_,
               .listener = *this},
      output_(context_),
      preparation_(context_),
      checkpoints_(context_),
      attempt_(context_, &checkpoints_),
      readoption_(context_),
      incidents_(context_),
      recovery_(context_, &incidents_),
      export_(context_),
      proof_(context_, &export_),
      push_(context_),
      trackers_(context_) {}

bool JobDriver::Advance(state::JobEvent event, const std::string& reason,
                        const std::vector<std::string>& reserved) {
  const absl::Status status = record_.Apply(event, reason, reserved);
  if (status.ok()) return true;
  Fail(failure::MakeBug(absl::InternalError(status.message()), {.phase = "state"}));
  return false;
}

void JobDriver::TakeUp(bool after_restart) {
  trackers_.Start();
  if (after_restart && phase() == v1::JOB_STATE_DRAINING) {
    yields_to_ = row().yields_to;
    saves_last_ = record_.status().drain_goal == v1::JOB_STATE_CANCELLED &&
                  row().drain_step != store::JobRow::kNoDrainStep;
    readoption_.LookForGang(!config::OnlyGenerates(spec_));
    if (readoption_.awaits()) {
      preparation_.Start();  // of it is made what is sent again
    } else {
      StopDraining("the controller restarted");
    }
    return;
  }
  if (after_restart) {
    const bool had_gang = phase() != v1::JOB_STATE_PREPARING && phase() != v1::JOB_STATE_READY &&
                          phase() != v1::JOB_STATE_QUEUED;
    readoption_.LookForGang(!config::OnlyGenerates(spec_));
    if (!Advance(state::JobEvent::kControllerRestarted, "the controller restarted")) return;
    if (had_gang || readoption_.awaits()) recovery_.Keep();  // nothing unless the job is QUEUED
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
  RETURN_IF_ERROR(
      record_.Decide(state::JobEvent::kPauseRequested, "pause requested", [&](store::JobRow* row) {
        if (before == v1::JOB_STATE_RUNNING) row->drain_step = program_->Boundary();
      }));
  recovery_.KeepNoMore();
  if (before == v1::JOB_STATE_RUNNING) Drain(/*with_checkpoint=*/true);
  if (phase() == v1::JOB_STATE_PAUSED) EndAttempt("paused");
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
  return absl::OkStatus();
}

absl::Status JobDriver::Cancel(bool with_checkpoint) {
  const bool saves = with_checkpoint && !config::OnlyGenerates(spec_);
  const v1::JobState before = phase();
  RETURN_IF_ERROR(
      record_.Decide(state::JobEvent::kCancelRequested,
                     with_checkpoint ? "cancel with a checkpoint requested" : "cancel requested",
                     [&](store::JobRow* row) {
                       if (!saves) row->drain_step = store::JobRow::kNoDrainStep;
                       if (saves && before == v1::JOB_STATE_RUNNING)
                         row->drain_step = program_->Boundary();
                     }));
  saves_last_ = saves_last_ || with_checkpoint;
  if (phase() == v1::JOB_STATE_DRAINING) {
    Drain(saves);
  } else {
    TellOfLastCheckpoint();
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
      steps > 0 ? absl::StrCat("resumed for ", steps, steps == 1 ? " step" : " steps")
                : std::string("resumed"),
      [&](store::JobRow* row) {
        row->stop_at_step = steps > 0 ? job().progress().step() + steps : 0;
      }));
  recovery_.KeepNoMore();
  recovery_.WaitNoMore();  // whoever resumes need not wait
  recovery_.HeldUpNoMore();
  Prepare();
  return absl::OkStatus();
}

void JobDriver::Dump(std::chrono::milliseconds timeout,
                     std::function<void(std::shared_ptr<const IncidentReport>)> kept) {
  std::vector<int> ranks(context_.session->gang().ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  incidents_.Take(*context_.session,
                  {.ranks = std::move(ranks), .timeout = timeout, .kept = std::move(kept)});
}

bool JobDriver::WantsWorkers() const {
  return (phase() == v1::JOB_STATE_READY || phase() == v1::JOB_STATE_RECOVERING) &&
         !readoption_.awaits() && !output_.letting_go() &&  // paused and resumed at once
         preparation_.curriculum() != nullptr && !recovery_.Waits();
}

bool JobDriver::KeepsWorkers() const {
  switch (phase()) {
    case v1::JOB_STATE_QUEUED:
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_RECOVERING:
      return recovery_.Keeps();
    default:
      return false;
  }
}

void JobDriver::WorkerLost(const std::string& incarnation, const std::string& reason) {
  if (context_.session != nullptr) context_.session->WorkerLost(incarnation, reason);
  if (readoption_.awaits()) OnGangLost(absl::StrCat("worker lost: ", reason));
}

void JobDriver::WorkerDraining(const std::string& worker) {
  if (readoption_.awaits()) {
    if (phase() != v1::JOB_STATE_DRAINING) {
      OnGangLost(absl::StrCat("worker ", worker, " is leaving"));
    }
    return;
  }
  BackToQueue(absl::StrCat("worker ", worker, " is leaving: draining"));
}

bool JobDriver::MayBePreempted() const {
  return phase() == v1::JOB_STATE_RUNNING && recovery_.Quiet() && !config::OnlyGenerates(spec_);
}

void JobDriver::Preempt(const std::string& by, int64_t by_priority) {
  yields_to_ = by;
  deps_.metrics->Preempted(job().id());
  record_.AddEvent(PreemptedEvent(by, by_priority, spec_.priority),
                   absl::StrCat("job ", by, " of priority ", by_priority, " gets its workers: at ",
                                "the next step boundary it saves a checkpoint and waits in the ",
                                "queue, at priority ", spec_.priority));
  BackToQueue(absl::StrCat("preempted by job ", by, ": draining"));
}

bool JobDriver::GivesUpWorkers() const {
  if (phase() != v1::JOB_STATE_DRAINING) return false;
  return record_.status().drain_goal != v1::JOB_STATE_QUEUED || !yields_to_.empty();
}

void JobDriver::StopWithController() {
  stopping_ = true;
  trackers_.Hurry();
  if (phase() == v1::JOB_STATE_PREPARING) preparation_.Stop();  // else it counts as not ended
  if (phase() == v1::JOB_STATE_EXPORTING) push_.Stop();         // the next controller goes on
  if (phase() == v1::JOB_STATE_RUNNING) BackToQueue("the controller stops: draining");
}

bool JobDriver::AtRest() const {
  const bool drains = phase() == v1::JOB_STATE_DRAINING && context_.session != nullptr;
  return phase() != v1::JOB_STATE_RUNNING && !drains && trackers_.AtRest();
}

bool JobDriver::HoldsOutput() const {
  if (output_.letting_go() || readoption_.awaits()) return true;
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
