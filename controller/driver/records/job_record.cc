#include "controller/driver/records/job_record.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {

JobRecord::JobRecord(Loop* loop, Journal* journal, Metrics* metrics, store::JobRow row)
    : loop_(loop), journal_(journal), metrics_(metrics), row_(std::move(row)) {
  status_.phase = row_.job.state();
  status_.epoch = row_.job.epoch();
  status_.restarts = row_.job.restarts();
  status_.restarts_since_checkpoint = row_.job.restarts_since_checkpoint();
  status_.drain_goal = static_cast<v1::JobState>(row_.drain_goal);
  metrics_->JobStateIs(id(), status_.phase);
}

absl::Status JobRecord::Apply(state::JobEvent event, const std::string& reason) {
  return Apply(event, reason, {});
}

absl::Status JobRecord::Apply(state::JobEvent event, const std::string& reason,
                              const std::vector<std::string>& reserved) {
  const v1::JobState before = status_.phase;
  RETURN_IF_ERROR(Change(event, reason, reserved));
  Observe(before);
  return absl::OkStatus();
}

absl::Status JobRecord::Decide(state::JobEvent event, const std::string& reason,
                               absl::FunctionRef<void(store::JobRow*)> beside) {
  if (!state::Transition(status_, event).ok()) return Change(event, reason, {});  // refuses it
  const store::JobRow row = row_;
  const state::JobStatus status = status_;
  const absl::Status decided = journal_->Transact([&] {
    RETURN_IF_ERROR(Change(event, reason, {}));
    beside(&row_);
    Changed();
    return absl::OkStatus();
  });
  if (!decided.ok()) {
    row_ = row;
    status_ = status;
    return decided;
  }
  Observe(status.phase);
  return absl::OkStatus();
}

absl::Status JobRecord::Change(state::JobEvent event, const std::string& reason,
                               const std::vector<std::string>& reserved) {
  absl::StatusOr<state::JobStatus> next = state::Transition(status_, event);
  if (!next.ok()) {
    return absl::Status(next.status().code(),
                        absl::StrCat("job ", id(), " ", std::string(next.status().message())));
  }
  const v1::JobState before = status_.phase;
  if (*next == status_) return absl::OkStatus();
  status_ = *next;
  v1::Job& job = row_.job;
  job.set_state(status_.phase);
  job.set_epoch(status_.epoch);
  job.set_restarts(status_.restarts);
  job.set_restarts_since_checkpoint(status_.restarts_since_checkpoint);
  if (status_.phase != v1::JOB_STATE_RECOVERING && status_.phase != v1::JOB_STATE_EXPORTING) {
    job.clear_setback();
    job.clear_retry_unix_ms();
  }
  row_.drain_goal = status_.drain_goal;
  if (status_.phase != v1::JOB_STATE_DRAINING) {
    row_.drain_step = store::JobRow::kNoDrainStep;
    row_.yields_to.clear();
  }
  const int64_t now = loop_->clock().UnixMs();
  if (status_.phase == v1::JOB_STATE_RUNNING && job.started_unix_ms() == 0) {
    job.set_started_unix_ms(now);
  }
  if (state::IsTerminal(status_.phase)) job.set_finished_unix_ms(now);
  if (before == v1::JOB_STATE_RUNNING) job.mutable_progress()->set_eta_seconds(0);
  const std::string from(state::PhaseName(before));
  const std::string to(state::PhaseName(status_.phase));
  AddEvent(StateChangedEvent(before, status_, event, reserved),
           reason.empty() ? absl::StrCat(from, " -> ", to) : reason);
  return absl::OkStatus();
}

// The metrics of a change that cannot be taken back.
void JobRecord::Observe(v1::JobState before) {
  if (status_.phase == before) return;
  if (state::IsTerminal(status_.phase)) metrics_->JobEnded(id(), status_.phase);
  metrics_->JobStateIs(id(), status_.phase);
  const bool stepped = before == v1::JOB_STATE_RUNNING || before == v1::JOB_STATE_DRAINING;
  if (stepped && status_.phase != v1::JOB_STATE_DRAINING) metrics_->StepsEnded(id());
}

void JobRecord::CheckpointAdvanced() {
  absl::StatusOr<state::JobStatus> next =
      state::Transition(status_, state::JobEvent::kCheckpointAdvanced);
  if (!next.ok()) return;  // the job ended meanwhile
  status_ = *next;
  row_.job.set_restarts_since_checkpoint(status_.restarts_since_checkpoint);
  Changed();
}

void JobRecord::DrainsAt(int64_t step, const std::string& yields_to) {
  row_.drain_step = step;
  row_.yields_to = yields_to;
  Changed();
}

void JobRecord::SetBack(const v1::Error& error, int64_t retry_unix_ms) {
  *row_.job.mutable_setback() = error;
  row_.job.set_retry_unix_ms(retry_unix_ms);
  Changed();
}

void JobRecord::Changed() {
  row_.job.set_version(row_.job.version() + 1);
  journal_->PutJob(row_);
}

void JobRecord::AddEvent(v1::JobEvent event, const std::string& message) {
  event.set_job(id());
  event.set_time_unix_ms(loop_->clock().UnixMs());
  event.set_message(CleanText(message));
  event.set_state(status_.phase);
  const std::string type = event.type();
  journal_->Add(std::move(event));
  if (type != "StepDone") {
    log::Info(message, {{"job", id()}, {"epoch", status_.epoch}, {"event", type}});
  } else {
    log::Debug(message, {{"job", id()}, {"epoch", status_.epoch}, {"event", type}});
  }
  Changed();
}

}  // namespace coxswain::driver
