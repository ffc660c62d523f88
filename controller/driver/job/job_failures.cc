// What failures are to the job: which state it takes, and what is tried again.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/job/job_driver.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

// Invariant driver-7: a checkpoint in which a rank found damage is passed over by the next attempt.
void JobDriver::OnAttemptFailed(const v1::Error& found) {
  if (recovery_.Dumps()) return;  // it has failed already
  preparation_.ForgetIfDamaged();
  recovery_.Failed(found, attempt_.SetAside(found));
}

absl::Status JobDriver::StopGang(uint64_t epoch) {
  if (context_.session == nullptr || context_.session->gang().epoch != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job().id(), " is ", std::string(state::PhaseName(phase())), ": gang ",
                     epoch, " has ended already, there is nothing to stop"));
  }
  if (!recovery_.Dumps()) recovery_.StopAsked();  // else it is being ended
  return absl::OkStatus();
}

void JobDriver::OnJudged(const failure::Verdict& verdict) {
  if (verdict.course == failure::Course::kEnds) {
    Fail(verdict.error, verdict.reason);
    return;
  }
  AbortGang(failure::Describe(verdict.error));
  if (phase() == v1::JOB_STATE_DRAINING) TellOfLastCheckpoint();
  const bool waits = verdict.course == failure::Course::kWaits;
  const absl::Status status = record_.Apply(
      waits ? state::JobEvent::kHeldUp : state::JobEvent::kAttemptFailed, verdict.reason);
  if (status.ok() && phase() == v1::JOB_STATE_RECOVERING) {
    deps_.metrics->Restart(job().id(), verdict.error.phase());
    recovery_.Retry(verdict);
  } else {
    recovery_.Stopped();
  }
  deps_.journal->FlushOrKeep();
  if (phase() == v1::JOB_STATE_QUEUED) QueueAgain();
  hooks_.reschedule();
}

void JobDriver::OnRetryDue() {
  if (phase() == v1::JOB_STATE_EXPORTING) {
    Export();
  } else if (phase() == v1::JOB_STATE_RECOVERING && preparation_.curriculum() == nullptr) {
    Prepare();
  } else {
    hooks_.reschedule();
  }
}

void JobDriver::Fail(const v1::Error& error, const std::string& reason) {
  EndAttempt(failure::Describe(error));
  *record_.edit().mutable_error() = error;
  const absl::Status failed =
      record_.Apply(state::JobEvent::kFailed,
                    reason.empty() ? absl::StrCat("failed: ", failure::Describe(error)) : reason);
  if (!failed.ok()) return;  // it has ended
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

void JobDriver::EndAttempt(const std::string& reason) {
  AbortGang(reason);
  recovery_.Stopped();
}

// Without its consent. Every rank is told to abort, and is free when it says so.
void JobDriver::AbortGang(const std::string& reason) {
  preparation_.Stop();
  attempt_.Stop();
  proof_.Stop();
  export_.Stop();
  push_.Stop();
  checkpoints_.Stop();
  program_.reset();
  recovery_.Ended(context_.session ? context_.session->gang().ranks : std::vector<gang::Rank>());
  readoption_.Drop(reason);
  if (context_.session == nullptr) return;
  if (context_.session->gang().epoch > 0) readoption_.EndPosition();
  gang::GangSession::Abort(std::exchange(context_.session, nullptr), reason);
}

}  // namespace coxswain::driver
