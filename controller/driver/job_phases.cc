// From PREPARING to RUNNING: data, workers, a gang, the first command; or a gang of the controller
// before, in place of a new one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/flops.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/progress.h"
#include "controller/driver/tell_pace.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

gang::Gang GangOf(const std::string& job, uint64_t term,
                  const std::vector<scheduler::Worker>& workers) {
  gang::Gang gang;
  gang.job = job;
  gang.term = term;
  for (const scheduler::Worker& worker : workers) {
    gang.ranks.push_back({.target = worker.target,
                          .host = worker.hello.host(),
                          .memory = {},
                          .peak_flops = model::PeakBfloat16Flops(worker.hello.device_name())});
  }
  return gang;
}

}  // namespace

void JobDriver::Prepare() {
  if (record_.Apply(state::JobEvent::kPrepareStarted, "preparing data").ok()) preparation_.Start();
}

void JobDriver::OnPrepared() {
  if (!Advance(state::JobEvent::kPrepared, "waiting for workers")) return;
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

void JobDriver::PreparationFailed(const v1::Error& error) {
  const failure::Verdict verdict = failure::JudgePreparation(error, recovery_.Facts());
  if (verdict.course == failure::Course::kWaits) {
    AttemptFailed(error);
  } else {
    Fail(verdict.error);
  }
}

// Its session with `gang`, whose workers are reserved for the job. False: the job cannot have it.
bool JobDriver::TakeGang(gang::Gang gang, const std::string& reason) {
  auto session = std::make_shared<gang::GangSession>(
      deps_.OfGang(), std::move(gang),
      gang::SessionEvents{.formed = [this] { OnFormed(); },
                          .taken = [this] { readoption_.Record(*session_, *program_); },
                          .stepped = [this] { TellPace(deps_.metrics, &record_, session_.get()); },
                          .suspected = [this] { recovery_.Suspected(); },
                          .failed = [this](const v1::Error& error) { AttemptFailed(error); },
                          .ended = [this] { OnEnd(); }});
  std::vector<std::string> ids;
  for (const gang::Rank& rank : session->gang().ranks) ids.push_back(rank.target.id);
  if (!Advance(state::JobEvent::kAdmitted, reason, ids)) {
    gang::GangSession::Abort(std::move(session), "its job cannot take it");
    return false;
  }
  session_ = std::move(session);
  return true;
}

void JobDriver::Admit(const std::vector<scheduler::Worker>& workers) {
  recovery_.Placed();
  yields_to_.clear();
  if (!TakeGang(GangOf(job().id(), deps_.registry->term(), workers),
                absl::StrCat(workers.size(), " workers reserved"))) {
    return;
  }
  attempt_.Begin(preparation_.curriculum(), workers);
}

void JobDriver::OnFormed() {
  recovery_.KeepNoMore();
  attempt_.Formed();
  if (!Advance(state::JobEvent::kFormed, "running")) return;
  program_ = config::OnlyGenerates(spec_) ? MakeGeneration() : MakeTraining(std::nullopt, 0);
  readoption_.Record(*session_, *program_);
  deps_.journal->FlushOrKeep();
  session_->Run(program_);
  if (stopping_) StopWithController();
  hooks_.reschedule();  // one of higher priority may wait for it
}

int JobDriver::Registered(const scheduler::Worker& worker) {
  const int rank = readoption_.Return(worker);
  if (rank >= 0) hooks_.reschedule();
  return rank;
}

bool JobDriver::MayReadopt() const {
  return readoption_.complete() && phase() == v1::JOB_STATE_READY && !output_.letting_go();
}

void JobDriver::Readopt() {
  recovery_.Placed();
  const std::shared_ptr<const Readoption> found = readoption_.Take();
  if (!TakeGang(found->MakeGang(deps_.registry->term()),
                absl::StrCat("all ", found->world_size(), " ranks of gang ", found->epoch(),
                             " are there"))) {
    return;
  }
  attempt_.Reenter(preparation_.curriculum(), found, [this, found](const absl::Status& status) {
    status.ok() ? OnReentered(*found) : GiveUpGang(std::string(status.message()));
  });
}

void JobDriver::OnReentered(const Readoption& found) {
  const TrainingPosition& position = found.position();
  const gang::Gang& gang = session_->gang();
  committed_seconds_ = position.run.seconds;
  recovery_.KeepNoMore();
  if (!Advance(state::JobEvent::kReadopted, "running, as before the restart")) return;
  deps_.metrics->GangReadopted(job().id());
  deps_.metrics->Epoch(job().id(), gang.epoch);
  ShowProgress(position.run, *preparation_.curriculum(), &record_, deps_.metrics);
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
  readoption_.TellThatItEnds(session_ ? session_->gang().epoch : readoption_.epoch(), reason);
  if (session_ != nullptr) {
    EndAttempt(reason);
    if (record_.Apply(state::JobEvent::kPreempted, "its gang does not go on").ok()) {
      recovery_.Keep();
      Prepare();
    }
  } else {
    readoption_.Drop(reason);
  }
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

}  // namespace coxswain::driver
