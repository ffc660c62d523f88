// From PREPARING to RUNNING: data, workers, a gang, the first command; or a gang of the controller
// before, in place of a new one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/job/job_driver.h"
#include "controller/driver/preparation/worker_facts.h"
#include "controller/driver/records/make_events.h"
#include "controller/driver/report/answer_report.h"
#include "controller/driver/report/progress.h"
#include "controller/driver/report/tell_pace.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

gang::Gang GangOf(const std::string& job, const scheduler::Registry& registry,
                  const std::vector<scheduler::Worker>& workers) {
  gang::Gang gang;
  gang.store = registry.store();
  gang.job = job;
  gang.term = registry.term();
  for (const scheduler::Worker& worker : workers) {
    gang.ranks.push_back({.target = worker.target,
                          .host = worker.hello.host(),
                          .memory = {},
                          .peak_flops = GpuOfWorker(worker).peak_flops_per_second});
  }
  return gang;
}

}  // namespace

void JobDriver::Prepare() {
  if (record_.Apply(state::JobEvent::kPrepareStarted, "preparing data").ok()) preparation_.Start();
}

void JobDriver::OnPrepared(const std::optional<v1::Error>& failed) {
  if (phase() == v1::JOB_STATE_DRAINING) {  // for a gang that is awaited
    failed ? OnGangLost(failure::Describe(*failed)) : hooks_.reschedule();
    return;
  }
  if (failed) {
    const failure::Verdict verdict = failure::JudgePreparation(*failed, recovery_.Facts());
    verdict.course == failure::Course::kWaits ? OnAttemptFailed(*failed) : Fail(verdict.error);
    return;
  }
  if (!Advance(state::JobEvent::kPrepared, "waiting for workers")) return;
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

bool JobDriver::OnPlanned() {
  return Advance(state::JobEvent::kFormingStarted, "forming the gang");
}

// Its session with `gang`, whose workers are reserved for the job. False: the job cannot have it.
bool JobDriver::TakeGang(gang::Gang gang, const std::string& reason) {
  auto session = std::make_shared<gang::GangSession>(
      deps_.OfGang(), std::move(gang),
      gang::SessionEvents{
          .formed = [this] { OnFormed(); },
          .taken = [this] { readoption_.Record(*context_.session, *program_); },
          .stepped = [this] { TellPace(deps_.metrics, &record_, context_.session.get()); },
          .suspected = [this](const v1::Error& error) { recovery_.Suspected(error); },
          .failed = [this](const v1::Error& error) { OnAttemptFailed(error); },
          .ended = [this] { OnEnd(); },
          .told =
              [this](const std::string& message) { record_.AddEvent(WarningEvent(), message); }});
  std::vector<std::string> ids;
  for (const gang::Rank& rank : session->gang().ranks) ids.push_back(rank.target.id);
  const bool drains = phase() == v1::JOB_STATE_DRAINING;
  if (!drains && !Advance(state::JobEvent::kAdmitted, reason, ids)) {
    gang::GangSession::Abort(std::move(session), "its job cannot take it");
    return false;
  }
  context_.session = std::move(session);
  return true;
}

void JobDriver::Admit(const std::vector<scheduler::Worker>& workers) {
  recovery_.Placed();
  yields_to_.clear();
  if (!TakeGang(GangOf(job().id(), *deps_.registry, workers),
                absl::StrCat(workers.size(), workers.size() == 1 ? " worker" : " workers",
                             " reserved"))) {
    return;
  }
  forming_seconds_ = 0;
  admitted_ns_ = deps_.loop->clock().NowNs();
  attempt_.Begin(preparation_.curriculum(), workers);
}

void JobDriver::OnFormed() {
  recovery_.KeepNoMore();
  attempt_.Formed();
  forming_seconds_ = static_cast<double>(deps_.loop->clock().NowNs() - admitted_ns_) * 1e-9;
  if (!Advance(state::JobEvent::kFormed, "running")) return;
  Run(nullptr);
  if (stopping_) StopWithController();
  hooks_.reschedule();  // one of higher priority may wait for it
}

int JobDriver::Registered(const scheduler::Worker& worker) {
  const int rank = readoption_.Return(worker);
  if (rank >= 0) hooks_.reschedule();
  return rank;
}

bool JobDriver::MayReadopt() const {
  const bool prepared = phase() == v1::JOB_STATE_READY ||
                        (phase() == v1::JOB_STATE_DRAINING && preparation_.curriculum() != nullptr);
  return readoption_.complete() && prepared && !output_.letting_go();
}

void JobDriver::Readopt() {
  recovery_.Placed();
  forming_seconds_ = 0;
  const std::shared_ptr<const Readoption> found = readoption_.Take();
  if (!TakeGang(found->MakeGang(*deps_.registry),
                absl::StrCat("all ", found->world_size(), " ranks of gang ", found->epoch(),
                             " are there"))) {
    return;
  }
  attempt_.Reenter(preparation_.curriculum(), found, [this, found](const absl::Status& status) {
    status.ok() ? OnReentered(*found) : OnGangLost(std::string(status.message()));
  });
}

void JobDriver::OnReentered(const Readoption& found) {
  const TrainingPosition& position = found.position();
  const gang::Gang& gang = context_.session->gang();
  committed_seconds_ = position.run.seconds;
  recovery_.KeepNoMore();
  const bool drains = phase() == v1::JOB_STATE_DRAINING;
  if (!drains && !Advance(state::JobEvent::kReadopted, "running, as before the restart")) return;
  deps_.metrics->GangReadopted(job().id());
  deps_.metrics->Epoch(job().id(), gang.epoch);
  ShowProgress(position.run, *preparation_.curriculum(), &record_, deps_.metrics);
  checkpoints_.ObserveOutput();
  record_.AddEvent(
      GangReadoptedEvent(
          gang, {.step = position.run.step, .taken = found.taken(), .queued = found.queued()}),
      absl::StrCat("gang ", gang.epoch,
                   drains ? " goes on draining: " : " goes on: ", gang.world_size(), " ranks, ",
                   position.run.step, " steps recorded, commands up to ", found.queued(),
                   " of which the answers up to ", found.taken(), " were recorded"));
  Run(&found);
  if (context_.session == nullptr) return;  // nothing was left to do
  if (drains) context_.session->Drain(/*with_checkpoint=*/true);
  if (stopping_) StopWithController();
}

// Its program, which goes on where that of a gang that was found stands.
bool JobDriver::LacksReferences() const {
  return preparation_.curriculum()->keeps_references() && KnownReferences() == nullptr &&
         attempt_.start_state().step > 0;
}

void JobDriver::Run(const Readoption* found) {
  std::shared_ptr<Training> training;
  if (config::OnlyGenerates(spec_)) {
    program_ = MakeGeneration(&record_, preparation_.curriculum(),
                              found != nullptr ? found->told() : ToldAnswers(), [this] {
                                readoption_.Record(*context_.session, *program_);
                                deps_.journal->FlushOrKeep();
                              });
  } else if (LacksReferences()) {
    return Fail(failure::MakeError(
        absl::DataLossError(absl::StrCat(
            "the log-probabilities of the start, with which step ", attempt_.start_state().step,
            " and later compare, are not with the prepared data and cannot be computed "
            "any more: begin anew with checkpoint.resume: never and another output_dir")),
        {.phase = "references"}));
  } else {
    program_ = training = MakeTraining(found);
    // What was sent behind its end is of the files of the controller before (JobProof::Want). One
    // that drains would send its end in place of it.
    const bool asked = spec_.export_verify && found != nullptr && found->queued() > found->taken();
    if (asked && training->is_done()) return OnGangLost(JobProof::kOutdated);
  }
  if (found != nullptr) {
    context_.session->Readopt(found->taken(), found->queued());
  } else {
    readoption_.Record(*context_.session, *program_);
  }
  deps_.journal->FlushOrKeep();
  context_.session->Run(program_);
  if (training == nullptr || !training->saving_run()) return;
  SaveCheckpoint(training.get(), deps_.loop->clock().NowNs());
}

// Of what a gang holds nothing is lost that a checkpoint has: the next one begins there.
void JobDriver::OnGangLost(const std::string& reason) {
  readoption_.TellThatItEnds(
      context_.session ? context_.session->gang().epoch : readoption_.epoch(), reason);
  const bool drains = phase() == v1::JOB_STATE_DRAINING;
  if (drains) {
    EndAttempt(reason);
    StopDraining("its gang does not go on");
  } else if (context_.session != nullptr) {
    EndAttempt(reason);
    if (record_.Apply(state::JobEvent::kPreempted, "its gang does not go on").ok()) {
      if (phase() == v1::JOB_STATE_DRAINING) return Drained();  // all of it is saved
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
