// ADMITTED, FORMING: one attempt to run, from reserved workers to the first command.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "common/hash.h"
#include "common/model/flops.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/progress.h"
#include "controller/driver/store_rows.h"
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

// Invariant driver-1: numbers before use.
absl::Status PersistEpoch(Journal* journal, const gang::Gang& gang,
                          const checkpoint::RunState& start) {
  return journal->Transact([&] {
    journal->Add(store::PlanRow{gang.plan_hash, gang.plan_bytes});
    journal->Add(EpochRowOf(gang));
    for (const checkpoint::EvalPoint& point : start.evals) journal->Add(EvalRowOf(gang, point));
    return absl::OkStatus();
  });
}

// A store that cannot be read costs a gang the bits of the one before, not the job.
std::string KnownGemmTable(store::Store* store, const std::string& job) {
  const auto epochs = store->Epochs(job);
  const std::string table = epochs.ok() ? LastGemmTable(*epochs) : "";
  return IsUtf8(table) ? table : "";
}

// For the plans of later gangs, of later controllers too.
void RememberLinks(const Deps& deps, const gang::Gang& gang) {
  std::vector<scheduler::Worker> workers;
  for (const gang::Rank& rank : gang.ranks) {
    const scheduler::Worker* worker = deps.registry->Find(rank.target.incarnation);
    if (worker == nullptr) return;
    workers.push_back(*worker);
  }
  if (!deps.registry->links().Remember(workers, gang.links)) return;
  const std::string kind = scheduler::GangKind(workers);
  for (const plan::LinkSpeed& link : gang.links) {
    deps.journal->Add(store::LinkRow{
        .gang = kind, .bytes = link.bytes, .bytes_per_second = link.bytes_per_second});
  }
}

}  // namespace

gang::SessionEvents JobDriver::EventsOfSession() {
  return {.formed = [this] { OnFormed(); },
          .taken = [this] { RecordPosition(); },
          .stepped = [this] { CheckPace(); },
          .suspected = [this] { recovery_.Happened(state::RecoveryEvent::kSuspected); },
          .failed = [this](const v1::Error& error) { AttemptFailed(error); },
          .ended = [this] { OnEnd(); }};
}

void JobDriver::Admit(const std::vector<scheduler::Worker>& workers) {
  recovery_.Happened(state::RecoveryEvent::kPlaced);
  yields_to_.clear();
  auto session = std::make_shared<gang::GangSession>(
      deps_.OfGang(), GangOf(job().id(), deps_.registry->term(), workers), EventsOfSession());
  std::vector<std::string> ids;
  for (const scheduler::Worker& worker : workers) ids.push_back(worker.target.id);
  if (!Advance(state::JobEvent::kAdmitted, absl::StrCat(workers.size(), " workers reserved"),
               ids)) {
    gang::GangSession::Abort(std::move(session), "its job cannot take it");
    return;
  }
  session_ = std::move(session);
  WorkerFacts facts = LeastOf(workers);
  facts.links = deps_.registry->links().Find(workers);
  facts.ranks_of_hosts = RanksOfHosts(workers);
  MakeDraft(facts);
}

absl::StatusOr<checkpoint::ResumeQuery> JobDriver::WhereToResume() const {
  checkpoint::ResumeQuery query{.job = job().id(),
                                .output_dir = spec_.output_dir,
                                .recipe_hash = ToHex(curriculum_->recipe_hash()),
                                .own_only = spec_.resume != "auto",
                                .any_recipe = config::OnlyGenerates(spec_),
                                .explicit_dirs = {},
                                .damaged = damaged_};
  if (spec_.resume.starts_with('/')) {
    query.explicit_dirs = {spec_.resume};
  } else if (spec_.resume != "auto" && spec_.resume != "never") {
    absl::StatusOr<std::vector<std::string>> directories = hooks_.resolve_checkpoints(spec_.resume);
    // The other job may be deleted once this one has begun.
    if (!directories.ok() && !job().checkpoints().empty()) {
      directories = std::vector<std::string>{job().checkpoints().rbegin()->directory()};
    }
    ASSIGN_OR_RETURN(query.explicit_dirs, std::move(directories));
  }
  return query;
}

checkpoint::RoomQuery JobDriver::RoomWanted() const {
  const int64_t saves = curriculum_->total_steps() / std::max<int64_t>(spec_.save_steps, 1);
  checkpoint::RoomQuery room{.output_dir = spec_.output_dir,
                             .at_once = std::min(spec_.save_total_limit + 1, 1 + saves)};
  for (const v1::CheckpointInfo& info : job().checkpoints()) room.kept_bytes += info.bytes();
  return room;
}

void JobDriver::MakeDraft(const WorkerFacts& workers) {
  absl::StatusOr<checkpoint::ResumeQuery> query = WhereToResume();
  if (!query.ok()) {
    Fail(failure::MakeError(query.status(), {.phase = "resume"}));
    return;
  }
  auto input =
      std::make_shared<const DraftInput>(DraftInput{.files = deps_.files,
                                                    .lane_work = deps_.lane_work,
                                                    .output = output_.Claim(),
                                                    .query = *std::move(query),
                                                    .room = RoomWanted(),
                                                    .spec = spec_,
                                                    .known_checkpoints = job().checkpoints_size(),
                                                    .curriculum = curriculum_,
                                                    .workers = workers});
  auto draft = std::make_shared<Draft>();
  auto status = std::make_shared<absl::Status>();
  deps_.loop->Offload(
      Lane::kFiles, [input, draft, status] { *status = DraftAttempt(*input, draft.get()); },
      lifetime_.Wrap([this, draft, status] { OnDraft(draft.get(), *status); }));
}

void JobDriver::OnDraft(Draft* draft, const absl::Status& status) {
  if (phase() != v1::JOB_STATE_ADMITTED) return;
  for (const std::string& warning : draft->warnings) record_.AddEvent(WarningEvent(), warning);
  if (!status.ok()) {
    AttemptFailed(failure::MakeError(status, {.phase = draft->phase}));
    return;
  }
  output_.set_identity(draft->output_identity);
  const bool goes_on = draft->resume && !config::OnlyGenerates(spec_);
  start_state_ = goes_on ? draft->resume->manifest.run : checkpoint::RunState();
  if (!Advance(state::JobEvent::kFormingStarted, "forming the gang")) return;
  plan_ = std::move(draft->plan);
  session_->Number(record_.status().epoch, plan_.hash, std::move(plan_.bytes), start_state_.step);
  ShowPlan();
  if (const absl::Status persisted = PersistEpoch(deps_.journal, session_->gang(), start_state_);
      !persisted.ok()) {
    v1::Error error = failure::MakeError(persisted, {.phase = "store"});
    error.set_kind(v1::ERROR_KIND_STORAGE);
    AttemptFailed(error);
    return;
  }
  fault::Pass(fault::Point::kEpochStored);
  resumed_from_ = draft->resume ? draft->resume->directory : "";
  if (draft->resume) {
    record_.AddEvent(ResumingEvent(draft->resume->manifest.run.step, resumed_from_),
                     absl::StrCat("from ", resumed_from_));
    if (goes_on) checkpoints_.Adopt(draft->resume->manifest, resumed_from_);
  }
  ShowProgress(start_state_, *curriculum_, &record_, deps_.metrics);
  deps_.metrics->CheckpointStep(job().id(), start_state_.step, spec_.save_steps);
  checkpoints_.ObserveOutput();
  Form({.output_dir = spec_.output_dir,
        .checkpoint_dir = resumed_from_,
        .start_step = start_state_.step,
        .gemm_table = KnownGemmTable(deps_.journal->store(), job().id()),
        .tokens = curriculum_->token_stores()});
}

void JobDriver::ShowPlan() {
  record_.edit().set_plan_hash(session_->gang().plan_hash);
  *record_.edit().mutable_planned_memory() = plan_.memory;
  for (const std::string& advice : plan_.advice) {
    if (session_->gang().epoch == 1) record_.AddEvent(AdviceEvent(), advice);
  }
  deps_.metrics->Epoch(job().id(), session_->gang().epoch);
}

// After what an earlier epoch trained beyond the checkpoint was read.
void JobDriver::Form(gang::FormArgs args) {
  auto replays = std::make_shared<Replays>();
  deps_.loop->Offload(
      Lane::kFiles,
      [history = deps_.journal->store()->history(), id = job().id(), from = start_state_.step,
       replays] {
        const absl::StatusOr<std::vector<store::StepRow>> steps = history->Steps(id, from);
        if (steps.ok()) *replays = Replays(*steps);  // else it costs the comparison, not the job
      },
      lifetime_.Wrap([this, replays, args = std::move(args)] {
        replays_ = std::move(*replays);
        session_->Form(args);
      }));
}

void JobDriver::OnFormed() {
  fault::Pass(fault::Point::kFormed);
  const gang::Gang& gang = session_->gang();
  recovery_.KeepNoMore();
  deps_.journal->Add(EpochRowOf(gang));
  if (replays_.KeepComparable(gang, deps_.journal->store()) > 0) {
    record_.AddEvent(
        NotComparedWarning(gang.fingerprint),
        "some replayed steps ran under another fingerprint (build, device, hosts of the ranks, "
        "order of sums), world size, GEMM table or plan: they are not compared bit by bit");
  }
  RememberLinks(deps_, gang);
  record_.AddEvent(GangFormedEvent(gang, plan_),
                   absl::StrCat("gang ", gang.epoch, ": ", gang.world_size(), " ranks, from step ",
                                gang.start_step));
  if (!Advance(state::JobEvent::kFormed, "running")) return;
  program_ = config::OnlyGenerates(spec_) ? MakeGeneration() : MakeTraining(std::nullopt, 0);
  RecordPosition();
  deps_.journal->FlushOrKeep();
  session_->Run(program_);
  if (stopping_) StopWithController();
  hooks_.reschedule();  // one of higher priority may wait for it
}

}  // namespace coxswain::driver
