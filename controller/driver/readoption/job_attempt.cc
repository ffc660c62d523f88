#include "controller/driver/readoption/job_attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/guarded.h"
#include "common/model/flops.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/readoption/reenter_gang.h"
#include "controller/driver/records/make_events.h"
#include "controller/driver/records/store_rows.h"
#include "controller/driver/report/progress.h"
#include "controller/driver/training/recipe_name.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

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

void JobAttempt::Begin(std::shared_ptr<const Curriculum> curriculum,
                       const std::vector<scheduler::Worker>& workers) {
  curriculum_ = std::move(curriculum);
  WorkerFacts facts = LeastOf(workers);
  facts.links = job_.deps.registry->links().Find(workers);
  facts.ranks_of_hosts = RanksOfHosts(workers);
  MakeDraft(facts);
}

void JobAttempt::Stop() {
  lifetime_.Reset();
  curriculum_.reset();
}

absl::StatusOr<checkpoint::ResumeQuery> JobAttempt::WhereToResume() const {
  const config::JobSpec& spec = job_.spec;
  checkpoint::ResumeQuery query{.job = job_.record.id(),
                                .output_dir = spec.output_dir,
                                .recipe = NameOf(*curriculum_, job_.record.job().effective_json()),
                                .extend = spec.extend,
                                .own_only = spec.resume != "auto",
                                .any_recipe = config::OnlyGenerates(spec),
                                .explicit_starts = {},
                                .damaged = damaged_};
  if (spec.resume.starts_with('/')) {
    query.explicit_starts = {{.directory = spec.resume}};
  } else if (spec.resume != "auto" && spec.resume != "never") {
    absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>> checkpoints =
        job_.hooks.resolve_checkpoints(spec.resume);
    // The other job may be deleted once this one has begun.
    const auto& own = job_.record.job().checkpoints();
    if (!checkpoints.ok() && !own.empty()) {
      checkpoints =
          std::vector<checkpoint::KnownCheckpoint>{{.directory = own.rbegin()->directory(),
                                                    .digest = own.rbegin()->digest(),
                                                    .job = job_.record.id()}};
    }
    ASSIGN_OR_RETURN(query.explicit_starts, std::move(checkpoints));
  }
  return query;
}

checkpoint::RoomQuery JobAttempt::RoomWanted() const {
  const config::JobSpec& spec = job_.spec;
  const int64_t saves = curriculum_->total_steps() / std::max<int64_t>(spec.save_steps, 1);
  checkpoint::RoomQuery room{.output_dir = spec.output_dir,
                             .at_once = std::min(spec.save_total_limit + 1, 1 + saves)};
  for (const v1::CheckpointInfo& info : job_.record.job().checkpoints()) {
    room.kept_bytes += info.bytes();
  }
  return room;
}

void JobAttempt::MakeDraft(const WorkerFacts& workers) {
  absl::StatusOr<checkpoint::ResumeQuery> query = WhereToResume();
  if (!query.ok()) {
    job_.listener.OnHopeless(failure::MakeError(query.status(), {.phase = "resume"}));
    return;
  }
  auto input = std::make_shared<const DraftInput>(
      DraftInput{.files = job_.deps.files,
                 .lane_work = job_.deps.lane_work,
                 .output = job_.output.Claim(),
                 .query = *std::move(query),
                 .room = RoomWanted(),
                 .spec = job_.spec,
                 .known_checkpoints = job_.record.job().checkpoints_size(),
                 .curriculum = curriculum_,
                 .workers = workers});
  auto draft = std::make_shared<Draft>();
  auto status = std::make_shared<absl::Status>();
  job_.deps.loop->Offload(
      Lane::kFiles,
      GuardedInto(status, [input, draft, status] { *status = DraftAttempt(*input, draft.get()); }),
      lifetime_.Wrap([this, draft, status] { OnDraft(draft.get(), *status); }));
}

void JobAttempt::OnDraft(Draft* draft, const absl::Status& status) {
  JobRecord& record = job_.record;
  const config::JobSpec& spec = job_.spec;
  for (const std::string& warning : draft->warnings) record.AddEvent(WarningEvent(), warning);
  if (!status.ok()) {
    job_.listener.OnAttemptFailed(failure::MakeError(status, {.phase = draft->phase}));
    return;
  }
  job_.output.set_identity(draft->output_identity);
  const bool goes_on = draft->resume && !config::OnlyGenerates(spec);
  start_state_ = goes_on ? draft->resume->manifest.run : checkpoint::RunState();
  origin_ = goes_on ? checkpoint::OriginOf(draft->resume->manifest, record.id()) : Origin();
  resumed_threads_ = goes_on ? draft->resume->manifest.threads : 0;
  if (draft->extends) origin_.total_steps = draft->resume->manifest.total_steps;
  if (!job_.listener.OnPlanned()) return;
  plan_ = std::move(draft->plan);
  session().Number(record.status().epoch, plan_.hash, std::move(plan_.bytes), start_state_.step);
  ShowPlan();
  if (const absl::Status persisted =
          PersistEpoch(job_.deps.journal, session().gang(), start_state_);
      !persisted.ok()) {
    v1::Error error = failure::MakeError(persisted, {.phase = "store"});
    error.set_kind(v1::ERROR_KIND_STORAGE);
    job_.listener.OnAttemptFailed(error);
    return;
  }
  fault::Pass(fault::Point::kEpochStored);
  resumed_from_ = draft->resume ? draft->resume->directory : "";
  if (draft->resume) {
    TellResuming(*draft);
    if (goes_on) checkpoints_->Adopt(draft->resume->manifest, resumed_from_);
  }
  ShowProgress(start_state_, *curriculum_, &record, job_.deps.metrics);
  job_.deps.metrics->CheckpointStep(record.id(), start_state_.step, spec.save_steps);
  checkpoints_->ObserveOutput();
  Form({.output_dir = spec.output_dir,
        .checkpoint_dir = resumed_from_,
        .checkpoint_recipe = draft->extends ? draft->resume->manifest.recipe_hash : "",
        .start_step = start_state_.step,
        .gemm_table = KnownGemmTable(job_.deps.journal->store(), record.id()),
        .tokens = curriculum_->token_stores()});
}

void JobAttempt::TellResuming(const Draft& draft) {
  const checkpoint::Manifest& from = draft.resume->manifest;
  std::string text = absl::StrCat("from ", resumed_from_);
  if (!origin_.job.empty()) absl::StrAppend(&text, ", goes on from job ", origin_.job);
  if (draft.extends) {
    absl::StrAppend(&text, ", extends it from ", from.total_steps, " to ",
                    curriculum_->total_steps(), " steps");
  }
  job_.record.AddEvent(
      ResumingEvent(from.run.step, resumed_from_, draft.extends ? from.total_steps : int64_t{0}),
      text);
}

void JobAttempt::ShowPlan() {
  JobRecord& record = job_.record;
  const gang::Gang& gang = session().gang();
  record.edit().set_plan_hash(gang.plan_hash);
  *record.edit().mutable_planned_memory() = plan_.memory;
  for (const std::string& advice : plan_.advice) {
    if (gang.epoch == 1) record.AddEvent(AdviceEvent(), advice);
  }
  job_.deps.metrics->Epoch(record.id(), gang.epoch);
}

// After what an earlier epoch trained beyond the checkpoint was read.
void JobAttempt::Form(gang::FormArgs args) {
  auto replays = std::make_shared<Replays>();
  job_.deps.loop->Offload(
      Lane::kFiles,
      [history = job_.deps.journal->store()->history(), id = job_.record.id(),
       from = start_state_.step, replays] {
        const absl::StatusOr<std::vector<store::StepRow>> steps = history->Steps(id, from);
        if (steps.ok()) *replays = Replays(*steps);  // else it costs the comparison, not the job
      },
      lifetime_.Wrap([this, replays, args = std::move(args)] {
        replays_ = std::move(*replays);
        session().Form(args);
      }));
}

void JobAttempt::Formed() {
  fault::Pass(fault::Point::kFormed);
  const gang::Gang& gang = session().gang();
  job_.deps.journal->Add(EpochRowOf(gang));
  if (replays_.KeepComparable(gang, job_.deps.journal->store()) > 0) {
    job_.record.AddEvent(
        NotComparedWarning(gang.fingerprint),
        "some replayed steps ran under another fingerprint (build, device, hosts of the ranks, "
        "order of sums), world size, GEMM table or plan: they are not compared bit by bit");
  }
  WarnOfOtherThreads();
  RememberLinks(job_.deps, gang);
  job_.record.AddEvent(
      GangFormedEvent(gang, plan_),
      absl::StrCat("gang ", gang.epoch, ": ", gang.world_size(),
                   gang.world_size() == 1 ? " rank" : " ranks", ", from step ", gang.start_step));
}

// Sums over threads are ordered by their number.
void JobAttempt::WarnOfOtherThreads() {
  const int64_t now = RankThreads(session().gang(), *job_.deps.registry);
  if (now == 0 || resumed_threads_ == 0 || now == resumed_threads_) return;
  job_.record.AddEvent(
      WarningEvent(),
      absl::StrCat(
          "the checkpoint was computed with ", resumed_threads_,
          resumed_threads_ == 1 ? " CPU thread" : " CPU threads", " a worker, these workers have ",
          now,
          ": bits of the steps will differ; for the same bits, start the workers with --threads ",
          resumed_threads_));
}

void JobAttempt::Reenter(std::shared_ptr<const Curriculum> curriculum,
                         const std::shared_ptr<const Readoption>& found,
                         std::function<void(const absl::Status&)> done) {
  curriculum_ = std::move(curriculum);
  std::vector<std::string> checkpoints;
  for (const v1::CheckpointInfo& info : job_.record.job().checkpoints()) {
    checkpoints.push_back(info.directory());
  }
  auto input = std::make_shared<const ReentryInput>(
      ReentryInput{.files = job_.deps.files,
                   .lane_work = job_.deps.lane_work,
                   .history = job_.deps.journal->store()->history(),
                   .output = job_.output.Claim(),
                   .spec = job_.spec,
                   .curriculum = curriculum_,
                   .job = job_.record.id(),
                   .plan_bytes = session().gang().plan_bytes,
                   .finished_steps = found->position().run.step,
                   .epoch = session().gang().epoch,
                   .checkpoints = std::move(checkpoints)});
  auto reentry = std::make_shared<Reentry>();
  auto status = std::make_shared<absl::Status>();
  job_.deps.loop->Offload(
      Lane::kFiles,
      GuardedInto(status,
                  [input, reentry, status] { *status = ReenterGang(*input, reentry.get()); }),
      lifetime_.Wrap([this, found, reentry, status, done = std::move(done)] {
        if (status->ok()) OnReentered(*found, reentry.get());
        done(*status);
      }));
}

void JobAttempt::OnReentered(const Readoption& found, Reentry* reentry) {
  job_.output.set_identity(reentry->output_identity);
  plan_ = std::move(reentry->plan);
  start_state_ = found.position().run;
  origin_ = reentry->origin;
  replays_ = std::move(reentry->replays);
  replays_.KeepComparable(session().gang(), job_.deps.journal->store());
  const auto& known = job_.record.job().checkpoints();
  const int64_t newest = known.empty() ? -1 : known.rbegin()->step();
  for (const checkpoint::Manifest& manifest : reentry->unknown_checkpoints) {
    checkpoints_->Adopt(manifest,
                        checkpoint::CheckpointDirectory(job_.spec.output_dir, manifest.run.step));
    if (manifest.run.step > newest) job_.record.CheckpointAdvanced();
  }
}

// Invariant driver-7.
bool JobAttempt::SetAside(const v1::Error& error) {
  const bool names_it =
      !resumed_from_.empty() && error.message().find(resumed_from_ + "/") != std::string::npos;
  if (error.code() != "DATA_LOSS" || error.phase() != "prepare" || !names_it) return false;
  return damaged_.emplace(resumed_from_, error.message()).second;
}

void JobAttempt::WrittenAnew(int64_t step) {
  damaged_.erase(checkpoint::CheckpointDirectory(job_.spec.output_dir, step));
}

}  // namespace coxswain::driver
