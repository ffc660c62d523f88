// DRAINING and EXPORTING: how a job ends in good order.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

constexpr std::chrono::seconds kExportRetry{5};

}  // namespace

// Everything asked of the gang is done: the whole job, the requested steps, or a drain.
void JobDriver::OnEnd() {
  const std::shared_ptr<gang::Program> program = std::exchange(program_, nullptr);
  lifetime_.Reset();
  checkpoints_.Stop();
  gang::GangSession::Release(std::exchange(session_, nullptr));
  if (phase() == v1::JOB_STATE_DRAINING) {
    Drained();
  } else if (!program->complete()) {
    if (Advance(state::JobEvent::kPauseRequested, "the requested steps are done")) Drained();
  } else if (Advance(state::JobEvent::kStepsFinished, program->Ending())) {
    if (program->exports()) {
      deps_.journal->FlushOrKeep();
      Export();
    } else if (Advance(state::JobEvent::kExported, program->Ending())) {
      deps_.journal->FlushOrKeep();
      curriculum_.reset();
    }
  }
  hooks_.reschedule();
}

void JobDriver::Drained() {
  if (!Advance(state::JobEvent::kDrained, "drained")) return;
  deps_.journal->FlushOrKeep();
  if (phase() == v1::JOB_STATE_QUEUED) {
    recovery_.Keep();
    Prepare();
  }
  hooks_.reschedule();
}

void JobDriver::Export() {
  ExportJob(deps_, job(), spec_, output_.Claim(),
            lifetime_.Wrap([this](const ExportAttempt& attempt) { OnExported(attempt); }));
}

void JobDriver::OnExported(const ExportAttempt& attempt) {
  if (phase() != v1::JOB_STATE_EXPORTING) return;
  for (const std::string& warning : attempt.warnings) record_.AddEvent(WarningEvent(), warning);
  const absl::Status& status = attempt.result.status();
  if (absl::IsUnavailable(status)) {
    if (std::exchange(export_waits_, true) == false) {
      record_.AddEvent(WarningEvent(), absl::StrCat("the export waits: ", status.message()));
    }
    deps_.loop->After(kExportRetry, lifetime_.Wrap([this] { Export(); }));
    return;
  }
  if (!status.ok()) {
    ExportFailed(failure::MakeError(status, {.phase = "export"}), attempt.damaged);
    return;
  }
  const ExportedTo& to = *attempt.result;
  record_.edit().set_artifact_dir(to.directory);
  record_.edit().set_merged_dir(to.merged_directory);
  record_.AddEvent(ExportedEvent(attempt.step, to),
                   absl::StrCat("artifacts of step ", attempt.step, " in ", to.directory,
                                to.merged_directory.empty() ? "" : " and ", to.merged_directory));
  if (!Advance(state::JobEvent::kExported, "succeeded")) return;
  deps_.journal->FlushOrKeep();
  fault::Pass(fault::Point::kJobEnded);
  curriculum_.reset();
  hooks_.reschedule();
}

}  // namespace coxswain::driver
