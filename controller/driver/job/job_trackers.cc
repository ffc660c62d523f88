#include "controller/driver/job/job_trackers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/logging.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {

void JobTrackers::Start() {
  if (job_.spec.report_to.empty() || report_ != nullptr) return;
  const v1::Job& job = job_.record.job();
  const int64_t since_end = job_.deps.loop->clock().UnixMs() - job.finished_unix_ms();
  if (state::IsTerminal(job_.record.phase()) && since_end > kEndedLately.count()) return;
  report_ = std::make_shared<std::optional<trackers::Report>>();
  report_->emplace(trackers::ReportArgs{
      .run = {.id = job.id(), .name = job.name(), .created_unix_ms = job.created_unix_ms()},
      .config_json = job.effective_json(),
      .directory = job_.spec.logging_dir,
      .report_to = job_.spec.report_to,
      .every = std::max<int64_t>(job_.spec.logging_steps, 1)});
  LookAfter(std::chrono::milliseconds(0));  // a wrong folder is told before a step is trained
}

void JobTrackers::LookAfter(std::chrono::milliseconds delay) {
  job_.deps.loop->CancelTimer(timer_);
  timer_ = job_.deps.loop->After(delay, lifetime_.Wrap([this] { Look(); }));
}

void JobTrackers::Hurry() {
  if (report_ != nullptr && !writing_) Look();
}

bool JobTrackers::AtRest() const {
  return report_ == nullptr || !state::IsTerminal(job_.record.phase());
}

void JobTrackers::Look() {
  const bool changed = job_.record.job().version() != version_;
  version_ = job_.record.job().version();
  unchanged_looks_ = changed ? 0 : unchanged_looks_ + 1;
  const bool ended = state::IsTerminal(job_.record.phase());
  if (unchanged_looks_ > kLooksAfterChange && !ended) return LookAfter(kPeriod);
  Write();
}

void JobTrackers::Write() {
  writing_ = true;
  job_.deps.loop->CancelTimer(timer_);
  auto written = std::make_shared<absl::Status>();
  job_.deps.loop->Offload(
      Lane::kTrackers,
      GuardedInto(
          written,
          [written, report = report_, history = job_.deps.journal->store()->history(),
           files = job_.deps.files] { *written = trackers::Follow(history, files, report.get()); }),
      lifetime_.Wrap([this, written] { OnWritten(*written); }));
}

void JobTrackers::OnWritten(const absl::Status& written) {
  writing_ = false;
  const bool ended = state::IsTerminal(job_.record.phase());
  if (!written.ok()) {
    const std::string reason(written.message());
    if (!std::exchange(told_, true)) {
      job_.record.AddEvent(
          WarningEvent(),
          absl::StrCat("the files of logging.report_to in ", job_.spec.logging_dir,
                       " cannot be written: ", reason,
                       ended ? ". They are left as they are"
                             : ". The job goes on; they are tried again every 30 s and then get "
                               "all that is missing"));
    } else {
      log::Warning("the files of logging.report_to still cannot be written",
                   {{"job", job_.record.id()}, {"error", reason}});
    }
    unchanged_looks_ = 0;  // and then looks again, whether the job changes or not
    return ended ? Finish() : LookAfter(kRetry);
  }
  const bool gives_up = ended && ++looks_after_end_ >= kLooksAfterChange;
  if ((*report_)->ended() || gives_up) return Finish();
  LookAfter(kPeriod);
}

void JobTrackers::Finish() {
  report_.reset();
  job_.hooks.reschedule();
}

}  // namespace coxswain::driver
