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
  const v1::Job& job = job_.record.job();
  if (!MayHaveGang(job_.record.row())) {
    if (job.epoch() > 0 && !state::IsTerminal(job_.record.phase())) EndPosition();
    return;
  }
  absl::StatusOr<std::optional<Readoption>> found =
      Readoption::Find(job_.deps.journal->store(), job, trains);
  if (!found.ok()) {
    TellThatItEnds(job.epoch(), std::string(found.status().message()));
    EndPosition();
    return;
  }
  if (!*found) return;
  found_ = std::make_shared<Readoption>(**std::move(found));
  const std::chrono::milliseconds limit = job_.deps.settings.readopt_timeout;
  v1::Readoption& shown = *job_.record.edit().mutable_readoption();
  shown.set_epoch(found_->epoch());
  shown.set_ranks(found_->world_size());
  shown.set_returned(0);
  shown.set_deadline_unix_ms(job_.deps.loop->clock().UnixMs() + limit.count());
  job_.record.Changed();
  job_.deps.loop->Deadline(limit, lifetime_.Wrap([this, limit] {
    if (found_->complete()) return;
    job_.listener.OnGangLost(absl::StrCat(found_->Missing(), " did not register within ",
                                          limit.count(), " ms of the controller's start"));
  }));
}

int JobReadoption::Return(const scheduler::Worker& worker) {
  if (found_ == nullptr) return -1;
  const absl::StatusOr<int> rank = found_->Return(worker);
  if (!rank.ok()) {
    job_.listener.OnGangLost(std::string(rank.status().message()));
    return -1;
  }
  if (*rank < 0) return -1;
  job_.record.edit().mutable_readoption()->set_returned(found_->returned());
  job_.record.Changed();
  return *rank;
}

std::shared_ptr<const Readoption> JobReadoption::Take() {
  lifetime_.Reset();
  job_.record.edit().clear_readoption();
  job_.record.Changed();
  return std::exchange(found_, nullptr);
}

void JobReadoption::Drop(const std::string& reason) {
  if (found_ == nullptr) return;
  const std::shared_ptr<const Readoption> dropped = Take();
  EndPosition();
  for (const std::string& incarnation : dropped->Present()) {
    const scheduler::Worker* worker = job_.deps.registry->Find(incarnation);
    if (worker == nullptr || worker->job != job_.record.id()) continue;
    job_.deps.registry->AbortAndFree(incarnation, worker->hello.current(), reason);
  }
}

void JobReadoption::TellThatItEnds(uint64_t epoch, const std::string& reason) {
  job_.deps.metrics->GangNotReadopted(job_.record.id());
  job_.record.AddEvent(ReadoptionFailedEvent(epoch, reason),
                       absl::StrCat("gang ", epoch, " does not go on: ", reason,
                                    job_.record.phase() == v1::JOB_STATE_DRAINING
                                        ? ""
                                        : ". The job goes on from its last checkpoint"));
}

void JobReadoption::Record(const gang::GangSession& session, const gang::Program& program) {
  std::optional<gang::ProgramPosition> position = program.Position();
  if (!position) return;
  job_.deps.journal->PutPosition({job_.record.id(), session.gang().epoch,
                                  position->from_first ? 0 : session.taken(),
                                  std::move(position->state)});
}

void JobReadoption::EndPosition() {
  job_.deps.journal->PutPosition({job_.record.id(), job_.record.job().epoch(), 0, ""});
}

}  // namespace coxswain::driver
