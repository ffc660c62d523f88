// A restart of the controller: the gang that it finds running goes on where all ranks agree with
// what is recorded; else the job begins again at its last checkpoint, as after a failure.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/progress.h"
#include "controller/driver/reenter_gang.h"

namespace coxswain::driver {
namespace {

bool MayHaveGang(v1::JobState phase) {
  switch (phase) {
    case v1::JOB_STATE_QUEUED:  // one that a restart interrupted in its wait
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_RUNNING:
      return true;
    default:
      return false;
  }
}

}  // namespace

void JobDriver::LookForGang() {
  if (!MayHaveGang(phase())) {
    if (job().epoch() > 0 && !state::IsTerminal(phase())) EndPosition();
    return;
  }
  absl::StatusOr<std::optional<Readoption>> found = Readoption::Find(deps_.journal->store(), job());
  if (!found.ok()) {
    SayNotReadopted(job().epoch(), std::string(found.status().message()));
    EndPosition();
    return;
  }
  if (!*found) return;
  readoption_ = std::make_shared<Readoption>(**std::move(found));
  const std::chrono::milliseconds limit = deps_.settings.readopt_timeout;
  v1::Readoption& shown = *record_.edit().mutable_readoption();
  shown.set_epoch(readoption_->epoch());
  shown.set_ranks(readoption_->world_size());
  shown.set_returned(0);
  shown.set_deadline_unix_ms(deps_.loop->clock().UnixMs() + limit.count());
  record_.Changed();
  deps_.loop->Deadline(limit, readopting_.Wrap([this, limit] {
    if (readoption_->complete()) return;
    GiveUpGang(absl::StrCat(readoption_->Missing(), " did not register within ", limit.count(),
                            " ms of the controller's start"));
  }));
}

int JobDriver::Registered(const scheduler::Worker& worker) {
  if (readoption_ == nullptr) return -1;
  const absl::StatusOr<int> rank = readoption_->Return(worker);
  if (!rank.ok()) {
    GiveUpGang(std::string(rank.status().message()));
    return -1;
  }
  if (*rank < 0) return -1;
  record_.edit().mutable_readoption()->set_returned(readoption_->returned());
  record_.Changed();
  hooks_.reschedule();
  return *rank;
}

bool JobDriver::MayReadopt() const {
  return readoption_ != nullptr && readoption_->complete() && phase() == v1::JOB_STATE_READY &&
         !output_.letting_go();
}

void JobDriver::Readopt() {
  recovery_.Happened(state::RecoveryEvent::kPlaced);
  const std::shared_ptr<const Readoption> found = TakeReadoption();
  auto session = std::make_shared<gang::GangSession>(
      deps_.OfGang(), found->MakeGang(deps_.registry->term()), EventsOfSession());
  std::vector<std::string> ids;
  for (const gang::Rank& rank : session->gang().ranks) ids.push_back(rank.target.id);
  if (!Advance(state::JobEvent::kAdmitted,
               absl::StrCat("all ", ids.size(), " ranks of gang ", found->epoch(), " are there"),
               ids)) {
    gang::GangSession::Abort(std::move(session), "its job cannot take it");
    return;
  }
  session_ = std::move(session);
  const auto& checkpoints = job().checkpoints();
  auto input = std::make_shared<const ReentryInput>(ReentryInput{
      .files = deps_.files,
      .lane_work = deps_.lane_work,
      .history = deps_.journal->store()->history(),
      .output = output_.Claim(),
      .spec = spec_,
      .curriculum = curriculum_,
      .job = job().id(),
      .plan_bytes = session_->gang().plan_bytes,
      .finished_steps = found->position().run.step,
      .newest_checkpoint = checkpoints.empty() ? "" : checkpoints.rbegin()->directory()});
  auto reentry = std::make_shared<Reentry>();
  auto status = std::make_shared<absl::Status>();
  deps_.loop->Offload(
      Lane::kFiles, [input, reentry, status] { *status = ReenterGang(*input, reentry.get()); },
      lifetime_.Wrap([this, found, reentry, status] {
        if (status->ok()) {
          OnReentered(*found, reentry.get());
        } else {
          GiveUpGang(std::string(status->message()));
        }
      }));
}

void JobDriver::OnReentered(const Readoption& found, Reentry* reentry) {
  if (phase() != v1::JOB_STATE_ADMITTED) return;
  const TrainingPosition& position = found.position();
  const gang::Gang& gang = session_->gang();
  output_.set_identity(reentry->output_identity);
  plan_ = std::move(reentry->plan);
  start_state_ = position.run;
  committed_seconds_ = position.run.seconds;
  replays_ = std::move(reentry->replays);
  replays_.KeepComparable(gang, deps_.journal->store());
  recovery_.KeepNoMore();
  if (!Advance(state::JobEvent::kReadopted, "running, as before the restart")) return;
  deps_.metrics->GangReadopted(job().id());
  deps_.metrics->Epoch(job().id(), gang.epoch);
  ShowProgress(position.run, *curriculum_, &record_, deps_.metrics);
  checkpoints_.ObserveOutput();
  record_.AddEvent(
      GangReadoptedEvent(
          gang, {.step = position.run.step, .taken = found.taken(), .queued = found.queued()}),
      absl::StrCat("gang ", gang.epoch, " goes on: ", gang.world_size(), " ranks, ",
                   position.run.step, " steps recorded, commands up to ", found.queued(),
                   " of which the answers up to ", found.taken(), " were recorded"));
  deps_.journal->FlushOrKeep();
  const std::shared_ptr<Training> training =
      MakeTraining(position, static_cast<int64_t>(found.queued() - found.taken()));
  program_ = training;
  session_->Readopt(found.taken(), found.queued());
  session_->Run(program_);
  if (training->saving_run()) SaveCheckpoint(training.get(), deps_.loop->clock().NowNs());
}

// Of what a gang holds nothing is lost that a checkpoint has: the next one begins there.
void JobDriver::GiveUpGang(const std::string& reason) {
  SayNotReadopted(readoption_ ? readoption_->epoch() : session_->gang().epoch, reason);
  if (session_ != nullptr) {
    EndAttempt(reason);
    if (record_.Apply(state::JobEvent::kPreempted, "its gang does not go on").ok()) {
      recovery_.Keep();
      Prepare();
    }
  } else {
    DropGang(reason);
  }
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

void JobDriver::SayNotReadopted(uint64_t epoch, const std::string& reason) {
  deps_.metrics->GangNotReadopted(job().id());
  record_.AddEvent(ReadoptionFailedEvent(epoch, reason),
                   absl::StrCat("gang ", epoch, " does not go on: ", reason,
                                ". The job goes on from its last checkpoint"));
}

// Those of its ranks that are there are free when they have dropped its epoch.
void JobDriver::DropGang(const std::string& reason) {
  if (readoption_ == nullptr) return;
  const std::shared_ptr<const Readoption> dropped = TakeReadoption();
  EndPosition();
  for (const std::string& incarnation : dropped->Present()) {
    const scheduler::Worker* worker = deps_.registry->Find(incarnation);
    if (worker == nullptr || worker->job != job().id()) continue;
    deps_.registry->AbortAndFree(incarnation, worker->hello.current(), reason);
  }
}

std::shared_ptr<const Readoption> JobDriver::TakeReadoption() {
  readopting_.Reset();
  record_.edit().clear_readoption();
  record_.Changed();
  return std::exchange(readoption_, nullptr);
}

void JobDriver::RecordPosition() {
  std::optional<std::string> state = program_->Position();
  if (!state) return;
  deps_.journal->PutPosition(
      {job().id(), session_->gang().epoch, session_->taken(), *std::move(state)});
}

void JobDriver::EndPosition() { deps_.journal->PutPosition({job().id(), job().epoch(), 0, ""}); }

}  // namespace coxswain::driver
