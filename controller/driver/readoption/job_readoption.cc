#include "controller/driver/readoption/job_readoption.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {
namespace {

bool MayHaveGang(const store::JobRow& row) {
  switch (row.job.state()) {
    case v1::JOB_STATE_QUEUED:  // one that a restart interrupted in its wait
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_RUNNING:
      return true;
    case v1::JOB_STATE_DRAINING:  // else what it did is not wanted
      return row.drain_step != store::JobRow::kNoDrainStep;
    default:
      return false;
  }
}

}  // namespace

void JobReadoption::LookForGang(bool trains) {
  const v1::Job& job = record_->job();
  if (!MayHaveGang(record_->row())) {
    if (job.epoch() > 0 && !state::IsTerminal(record_->phase())) EndPosition();
    return;
  }
  absl::StatusOr<std::optional<Readoption>> found =
      Readoption::Find(deps_.journal->store(), job, trains);
  if (!found.ok()) {
    TellThatItEnds(job.epoch(), std::string(found.status().message()));
    EndPosition();
    return;
  }
  if (!*found) return;
  found_ = std::make_shared<Readoption>(**std::move(found));
  const std::chrono::milliseconds limit = deps_.settings.readopt_timeout;
  v1::Readoption& shown = *record_->edit().mutable_readoption();
  shown.set_epoch(found_->epoch());
  shown.set_ranks(found_->world_size());
  shown.set_returned(0);
  shown.set_deadline_unix_ms(deps_.loop->clock().UnixMs() + limit.count());
  record_->Changed();
  deps_.loop->Deadline(limit, lifetime_.Wrap([this, limit] {
    if (found_->complete()) return;
    given_up_(absl::StrCat(found_->Missing(), " did not register within ", limit.count(),
                           " ms of the controller's start"));
  }));
}

int JobReadoption::Return(const scheduler::Worker& worker) {
  if (found_ == nullptr) return -1;
  const absl::StatusOr<int> rank = found_->Return(worker);
  if (!rank.ok()) {
    given_up_(std::string(rank.status().message()));
    return -1;
  }
  if (*rank < 0) return -1;
  record_->edit().mutable_readoption()->set_returned(found_->returned());
  record_->Changed();
  return *rank;
}

std::shared_ptr<const Readoption> JobReadoption::Take() {
  lifetime_.Reset();
  record_->edit().clear_readoption();
  record_->Changed();
  return std::exchange(found_, nullptr);
}

void JobReadoption::Drop(const std::string& reason) {
  if (found_ == nullptr) return;
  const std::shared_ptr<const Readoption> dropped = Take();
  EndPosition();
  for (const std::string& incarnation : dropped->Present()) {
    const scheduler::Worker* worker = deps_.registry->Find(incarnation);
    if (worker == nullptr || worker->job != record_->id()) continue;
    deps_.registry->AbortAndFree(incarnation, worker->hello.current(), reason);
  }
}

void JobReadoption::TellThatItEnds(uint64_t epoch, const std::string& reason) {
  deps_.metrics->GangNotReadopted(record_->id());
  record_->AddEvent(ReadoptionFailedEvent(epoch, reason),
                    absl::StrCat("gang ", epoch, " does not go on: ", reason,
                                 record_->phase() == v1::JOB_STATE_DRAINING
                                     ? ""
                                     : ". The job goes on from its last checkpoint"));
}

void JobReadoption::Record(const gang::GangSession& session, const gang::Program& program) {
  std::optional<gang::ProgramPosition> position = program.Position();
  if (!position) return;
  deps_.journal->PutPosition({record_->id(), session.gang().epoch,
                              position->from_first ? 0 : session.taken(),
                              std::move(position->state)});
}

void JobReadoption::EndPosition() {
  deps_.journal->PutPosition({record_->id(), record_->job().epoch(), 0, ""});
}

}  // namespace coxswain::driver
