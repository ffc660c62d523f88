// DRAINING and EXPORTING: how a job ends in good order.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/faults/fault_point.h"
#include "controller/driver/job/job_driver.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

// The gang has done everything that was asked of it: the whole job, the requested steps, or a
// drain. Persisted before any rank leaves, so that a restarted controller does not wait for it.
void JobDriver::OnEnd() {
  const std::shared_ptr<gang::Program> program = std::exchange(program_, nullptr);
  std::shared_ptr<gang::GangSession> session = std::exchange(context_.session, nullptr);
  attempt_.Stop();
  checkpoints_.Stop();
  proof_.Stop();
  readoption_.EndPosition();
  if (phase() == v1::JOB_STATE_DRAINING) {
    Drained();
  } else if (!program->complete()) {
    if (Advance(state::JobEvent::kPauseRequested, "the requested steps are done")) Drained();
  } else if (Advance(state::JobEvent::kStepsFinished, program->Ending())) {
    if (!program->exports() && Advance(state::JobEvent::kExported, program->Ending())) {
      preparation_.Forget();
    }
    deps_.journal->FlushOrKeep();
  }
  gang::GangSession::Release(std::move(session));
  if (phase() == v1::JOB_STATE_EXPORTING) Export();
  hooks_.reschedule();
}

// The one way in which a gang stops in good order, whoever asks for it: DRAINING was decided; no
// new step is sent, what is on its way is finished, then the checkpoint is saved.
void JobDriver::Drain(bool with_checkpoint) {
  if (program_ != nullptr) {
    context_.session->Drain(with_checkpoint);
    return;
  }
  const bool awaited = readoption_.awaits() || context_.session != nullptr;
  if (awaited && with_checkpoint) return;  // its gang does, as soon as it is entered
  if (awaited) EndAttempt("its job is cancelled");
  Drained();  // long since, for a controller that stops, where no gang is awaited
}

// Its gang is not there any more, whether it had saved by then or not.
void JobDriver::StopDraining(const std::string& reason) {
  TellOfLastCheckpoint();
  if (!Advance(state::JobEvent::kControllerRestarted, reason)) return;
  deps_.journal->FlushOrKeep();
  if (phase() == v1::JOB_STATE_QUEUED) QueueAgain();
}

// Its workers are wanted elsewhere, or cannot stay.
void JobDriver::BackToQueue(const std::string& reason) {
  const absl::Status status = record_.Apply(state::JobEvent::kPreempted, reason);
  if (!status.ok()) return;  // its gang is ending
  if (phase() == v1::JOB_STATE_DRAINING) {
    record_.DrainsAt(program_->Boundary(), yields_to_);
    deps_.journal->FlushOrKeep();  // before a command follows from it
    Drain(/*with_checkpoint=*/true);
    return;
  }
  EndAttempt(reason);  // nothing was trained
  deps_.journal->FlushOrKeep();
  QueueAgain();
  hooks_.reschedule();
}

void JobDriver::Drained() {
  const bool goes_on = record_.status().drain_goal == v1::JOB_STATE_QUEUED;
  if (stopping_ && goes_on) {
    deps_.journal->FlushOrKeep();
    return;
  }
  TellOfLastCheckpoint();
  if (!Advance(state::JobEvent::kDrained, "drained")) return;
  deps_.journal->FlushOrKeep();
  if (phase() == v1::JOB_STATE_QUEUED) QueueAgain();
  hooks_.reschedule();
}

// It keeps its place and its workers, unless another job is to have them.
void JobDriver::QueueAgain() {
  if (yields_to_.empty()) recovery_.Keep();
  yields_to_.clear();
  Prepare();
}

// A cancel that asked for a checkpoint and has none of its last step says so before it ends.
void JobDriver::TellOfLastCheckpoint() {
  const bool cancels =
      phase() == v1::JOB_STATE_CANCELLED || record_.status().drain_goal == v1::JOB_STATE_CANCELLED;
  if (!std::exchange(saves_last_, false) || !cancels) return;
  const v1::CheckpointInfo* newest = nullptr;
  for (const v1::CheckpointInfo& info : job().checkpoints()) {
    if (newest == nullptr || info.step() > newest->step()) newest = &info;
  }
  const int64_t step = job().progress().step();
  if (newest != nullptr && newest->step() >= step && phase() == v1::JOB_STATE_DRAINING) return;
  const std::string there = newest == nullptr
                                ? std::string("it has no checkpoint")
                                : absl::StrCat("its newest checkpoint is of step ", newest->step(),
                                               ", in ", newest->directory());
  record_.AddEvent(
      WarningEvent(),
      phase() == v1::JOB_STATE_CANCELLED || step == 0
          ? absl::StrCat("cancelled with nothing to save: ",
                         step == 0 ? "no step is done; " : "no gang was running; ", there)
          : absl::StrCat("cancelled without a checkpoint of step ", step, ": ", there));
}

// The files, or, where they are there, their push.
void JobDriver::Export() {
  const bool exported = !job().artifact_dir().empty();
  if (exported && push_.Wanted()) return push_.Start();
  export_.Start();
}

void JobDriver::OnExported(const ExportAttempt& attempt) {
  if (!attempt.result.ok()) {
    const v1::Error error = failure::MakeError(attempt.result.status(), {.phase = "export"});
    const failure::Verdict verdict = failure::JudgeExport(error, recovery_.Facts());
    if (attempt.damaged || verdict.course == failure::Course::kEnds) {
      Fail(error);
      return;
    }
    const auto wait = std::chrono::duration_cast<std::chrono::seconds>(verdict.wait);
    record_.AddEvent(
        ExportFailedEvent(error),
        absl::StrCat(failure::Describe(error), ". Tried again in ", wait.count(), " s"));
    recovery_.HeldUp(verdict);
    deps_.journal->FlushOrKeep();
    return;
  }
  const ExportedTo& to = *attempt.result;
  record_.edit().set_artifact_dir(to.directory);
  record_.edit().set_merged_dir(to.merged_directory);
  record_.edit().set_artifact_digest(to.digest);
  record_.edit().set_merged_digest(to.merged_digest);
  record_.edit().clear_verifications();
  for (const Verification& verification : to.verifications) {
    *record_.edit().add_verifications() = ToWire(verification);
  }
  record_.AddEvent(
      ExportedEvent(attempt.step, to),
      absl::StrCat("artifacts of step ", attempt.step, " in ", to.directory,
                   to.merged_directory.empty() ? "" : " and ", to.merged_directory,
                   to.replaced.empty() ? "" : ", replacing ", absl::StrJoin(to.replaced, " and "),
                   to.verifications.empty() ? "" : "; ",
                   absl::StrJoin(to.verifications, "; ", [](std::string* out, const auto& one) {
                     out->append(VerificationText(ToWire(one)));
                   })));
  if (!push_.Wanted()) return Succeed();
  recovery_.HeldUpNoMore();
  record_.edit().clear_setback();
  record_.edit().clear_retry_unix_ms();
  deps_.journal->FlushOrKeep();  // a controller that starts here does not export again
  if (!stopping_) push_.Start();
}

// A network is waited for. What the Hub refuses ends the job: its files are there, and whoever may
// push them does.
void JobDriver::OnPushed(const absl::StatusOr<PushedTo>& pushed) {
  const config::PushSpec& where = spec_.push_to_hub;
  if (!pushed.ok()) {
    v1::Error error = failure::MakeError(pushed.status(), {.phase = "push"});
    const failure::Verdict verdict = failure::JudgeExport(error, recovery_.Facts());
    if (verdict.course == failure::Course::kEnds) {
      const std::string& merged = job().merged_dir();
      error.set_message(
          WithWayOut(error.message(), merged.empty() ? job().artifact_dir() : merged, where.repo));
      record_.AddEvent(PushFailedEvent(where, error), failure::Describe(error));
      Fail(error);
      return;
    }
    const auto wait = std::chrono::duration_cast<std::chrono::seconds>(verdict.wait);
    record_.AddEvent(
        PushFailedEvent(where, error),
        absl::StrCat(failure::Describe(error), ". Tried again in ", wait.count(), " s"));
    recovery_.HeldUp(verdict);
    deps_.journal->FlushOrKeep();
    return;
  }
  record_.edit().set_pushed_url(pushed->url);
  record_.AddEvent(PushedEvent(where, *pushed), absl::StrCat("pushed to ", where.repo, ", branch ",
                                                             where.revision, ": ", pushed->url));
  Succeed();
}

void JobDriver::Succeed() {
  if (!Advance(state::JobEvent::kExported, "succeeded")) return;
  deps_.journal->FlushOrKeep();
  fault::Pass(fault::Point::kJobEnded);
  preparation_.Forget();
  hooks_.reschedule();
}

}  // namespace coxswain::driver
