#include "controller/driver/job/job_trackers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/logging.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {

JobTrackers::JobTrackers(const Deps& deps, JobRecord* record, const config::JobSpec* spec,
                         std::function<void()> at_rest)
    : deps_(deps), record_(record), spec_(spec), at_rest_(std::move(at_rest)) {}

void JobTrackers::Start() {
  if (spec_->report_to.empty() || report_ != nullptr) return;
  const v1::Job& job = record_->job();
  const int64_t since_end = deps_.loop->clock().UnixMs() - job.finished_unix_ms();
  if (state::IsTerminal(record_->phase()) && since_end > kEndedLately.count()) return;
  report_ = std::make_shared<std::optional<trackers::Report>>();
  report_->emplace(trackers::ReportArgs{
      .run = {.id = job.id(), .name = job.name(), .created_unix_ms = job.created_unix_ms()},
      .config_json = job.effective_json(),
      .directory = spec_->logging_dir,
      .report_to = spec_->report_to,
      .every = std::max<int64_t>(spec_->logging_steps, 1)});
  LookAfter(std::chrono::milliseconds(0));  // a wrong folder is told before a step is trained
}

void JobTrackers::LookAfter(std::chrono::milliseconds delay) {
  deps_.loop->CancelTimer(timer_);
  timer_ = deps_.loop->After(delay, lifetime_.Wrap([this] { Look(); }));
}

void JobTrackers::Hurry() {
  if (report_ != nullptr && !writing_) Look();
}

bool JobTrackers::AtRest() const {
  return report_ == nullptr || !state::IsTerminal(record_->phase());
}

void JobTrackers::Look() {
  const bool changed = record_->job().version() != version_;
  version_ = record_->job().version();
  unchanged_looks_ = changed ? 0 : unchanged_looks_ + 1;
  const bool ended = state::IsTerminal(record_->phase());
  if (unchanged_looks_ > kLooksAfterChange && !ended) return LookAfter(kPeriod);
  Write();
}

void JobTrackers::Write() {
  writing_ = true;
  deps_.loop->CancelTimer(timer_);
  auto written = std::make_shared<absl::Status>();
  deps_.loop->Offload(
      Lane::kTrackers,
      GuardedInto(
          written,
          [written, report = report_, history = deps_.journal->store()->history(),
           files = deps_.files] { *written = trackers::Follow(history, files, report.get()); }),
      lifetime_.Wrap([this, written] { OnWritten(*written); }));
}

void JobTrackers::OnWritten(const absl::Status& written) {
  writing_ = false;
  const bool ended = state::IsTerminal(record_->phase());
  if (!written.ok()) {
    const std::string reason(written.message());
    if (!std::exchange(told_, true)) {
      record_->AddEvent(
          WarningEvent(),
          absl::StrCat("the files of logging.report_to in ", spec_->logging_dir,
                       " cannot be written: ", reason,
                       ended ? ". They are left as they are"
                             : ". The job goes on; they are tried again every 30 s and then get "
                               "all that is missing"));
    } else {
      log::Warning("the files of logging.report_to still cannot be written",
                   {{"job", record_->id()}, {"error", reason}});
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
  at_rest_();
}

}  // namespace coxswain::driver
