// ADMITTED, FORMING: one attempt to run, from reserved workers to the first command.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "common/hash.h"
#include "common/model/flops.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/room.h"
#include "controller/driver/enter_output.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/replays.h"
#include "controller/driver/store_rows.h"

namespace coxswain::driver {
namespace {

// Of a job that has `known` committed checkpoints: without them it would begin again at step 0.
absl::Status CheckpointsGone(const std::string& output_dir, int known) {
  return absl::NotFoundError(absl::StrCat(
      "checkpoint.output_dir ", output_dir, " holds no readable checkpoint, but the job has ",
      "committed ones (", known, " are kept): is its file system mounted? Bring them back, or ",
      "cancel the job and submit it again to start over"));
}

}  // namespace

struct JobDriver::Draft {
  const char* phase = "output";  // then "resume", then "plan"
  std::string output_identity;
  std::optional<checkpoint::ResumePoint> resume;
  GangPlan plan;
  std::vector<std::string> warnings;
};

void JobDriver::Admit(const std::vector<scheduler::Worker>& workers) {
  gang_ = std::make_shared<Gang>();
  gang_->job = job().id();
  gang_->term = deps_.registry->term();
  gang_->status.world_size = static_cast<int32_t>(workers.size());
  std::vector<std::string> ids;
  for (const scheduler::Worker& worker : workers) {
    gang_->ranks.push_back({.target = worker.target,
                            .host = worker.hello.host(),
                            .memory = {},
                            .peak_flops = model::PeakBfloat16Flops(worker.hello.device_name())});
    ids.push_back(worker.target.id);
  }
  record_.Apply(state::JobEvent::kAdmitted, absl::StrCat(workers.size(), " workers reserved"), ids)
      .IgnoreError();  // WantsWorkers held
  WorkerFacts facts = LeastOf(workers);
  facts.links = deps_.registry->links().Find(workers);
  facts.ranks_of_hosts = RanksOfHosts(workers);
  DraftAttempt(facts);
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

void JobDriver::DraftAttempt(const WorkerFacts& workers) {
  absl::StatusOr<checkpoint::ResumeQuery> query = WhereToResume();
  if (!query.ok()) {
    Fail(MakeError(query.status(), {.phase = "resume"}));
    return;
  }
  checkpoint::RoomQuery room{.output_dir = spec_.output_dir};
  room.at_once = std::min(spec_.save_total_limit + 1,
                          1 + curriculum_->total_steps() / std::max<int64_t>(spec_.save_steps, 1));
  for (const v1::CheckpointInfo& info : job().checkpoints()) room.kept_bytes += info.bytes();
  auto draft = std::make_shared<Draft>();
  auto status = std::make_shared<absl::Status>();
  auto make = [work = deps_.lane_work, files = deps_.files, output = ClaimOutput(),
               query = *std::move(query), room, draft, spec = spec_, id = job().id(),
               known = job().checkpoints_size(), curriculum = curriculum_,
               workers]() mutable -> absl::Status {
    RETURN_IF_ERROR(EnterOutput(files, output.get(), spec));
    ASSIGN_OR_RETURN(draft->output_identity, files->Identity(spec.output_dir));
    draft->phase = "resume";
    ASSIGN_OR_RETURN(draft->resume, checkpoint::FindResumePoint(files, query, &draft->warnings));
    if (!draft->resume && known > 0) return CheckpointsGone(query.output_dir, known);
    draft->phase = "plan";
    ASSIGN_OR_RETURN(
        draft->plan,
        work->plan({.job = id, .spec = &spec, .curriculum = curriculum.get(), .workers = workers}));
    room.bytes = draft->plan.checkpoint_bytes;
    draft->phase = "output";
    return checkpoint::CheckRoomOfJob(files, room, &draft->warnings.emplace_back());
  };
  deps_.loop->Offload(
      Lane::kFiles, [status, make]() mutable { *status = make(); },
      lifetime_.Wrap([this, draft, status] { OnDraft(*draft, *status); }));
}

void JobDriver::OnDraft(const Draft& draft, const absl::Status& status) {
  if (phase() != v1::JOB_STATE_ADMITTED) return;
  for (const std::string& warning : draft.warnings) {
    if (!warning.empty()) record_.AddEvent(WarningEvent(), warning);
  }
  if (!status.ok()) {
    AttemptFailed(MakeError(status, {.phase = draft.phase}));
    return;
  }
  output_identity_ = draft.output_identity;
  const bool goes_on = draft.resume && !config::OnlyGenerates(spec_);
  start_state_ = goes_on ? draft.resume->manifest.run : checkpoint::RunState();
  gang_->plan_bytes = draft.plan.bytes;
  gang_->plan_hash = draft.plan.hash;
  gang_->flops_per_token = draft.plan.flops_per_token;
  gang_->micro_batch_bins = draft.plan.micro_batch_bins;
  gang_->checkpoint_bytes = draft.plan.checkpoint_bytes;
  gang_->work = draft.plan.work;
  gang_->predicted = draft.plan.predicted;
  gang_->links_measured = draft.plan.links_measured;
  gang_->start_step = start_state_.step;
  record_.Apply(state::JobEvent::kFormingStarted, "forming the gang").IgnoreError();  // ADMITTED
  gang_->epoch = record_.status().epoch;
  record_.edit().set_plan_hash(gang_->plan_hash);
  *record_.edit().mutable_planned_memory() = draft.plan.memory;
  for (const std::string& advice : draft.plan.advice) {
    if (gang_->epoch == 1) record_.AddEvent(AdviceEvent(), advice);
  }
  const std::string directory = draft.resume ? draft.resume->directory : "";
  resumed_from_ = directory;
  const absl::Status persisted = PersistEpoch();
  if (!persisted.ok()) {
    v1::Error error = MakeError(persisted, {.phase = "store"});
    error.set_kind(v1::ERROR_KIND_STORAGE);
    AttemptFailed(error);
    return;
  }
  fault::Pass(fault::Point::kEpochStored);
  if (draft.resume) {
    record_.AddEvent(ResumingEvent(draft.resume->manifest.run.step, directory),
                     absl::StrCat("from ", directory));
    const auto& known = job().checkpoints();
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const auto& checkpoint) {
      return checkpoint.directory() == directory;
    });
    if (!is_known && goes_on) {  // renamed without a row, or another job's
      const v1::CheckpointInfo info = InfoOf(draft.resume->manifest, directory);
      deps_.journal->Add(CheckpointRowOf(job().id(), draft.resume->manifest.epoch, info));
      *record_.edit().add_checkpoints() = info;
      record_.Changed();
    }
  }
  UpdateProgress(start_state_);
  deps_.metrics->Epoch(job().id(), gang_->epoch);
  deps_.metrics->CheckpointStep(job().id(), start_state_.step, spec_.save_steps);
  ObserveOutput();
  formation_ = std::make_unique<GangFormation>(
      deps_, gang_.get(),
      FormArgs{.output_dir = spec_.output_dir,
               .checkpoint_dir = directory,
               .start_step = start_state_.step,
               .gemm_table = KnownGemmTable(),
               .tokens = curriculum_->token_stores()},
      lifetime_.Wrap([this](std::optional<v1::Error> error) { OnFormed(std::move(error)); }));
  ReadRecordedSteps();
}

// A store that cannot be read costs a gang the bits of the one before, not the job.
std::string JobDriver::KnownGemmTable() {
  const auto epochs = deps_.journal->store()->Epochs(job().id());
  const std::string table = epochs.ok() ? LastGemmTable(*epochs) : "";
  return IsUtf8(table) ? table : "";
}

// Invariant driver-1: numbers before use.
absl::Status JobDriver::PersistEpoch() {
  return deps_.journal->Transact([&] {
    deps_.journal->Add(store::PlanRow{gang_->plan_hash, gang_->plan_bytes});
    deps_.journal->Add(EpochRowOf(*gang_));
    return absl::OkStatus();
  });
}

void JobDriver::OnFormed(std::optional<v1::Error> error) {
  DestroyLater(formation_);
  if (error) {
    AttemptFailed(*error);
    return;
  }
  fault::Pass(fault::Point::kFormed);
  keep_until_ns_ = 0;
  deps_.journal->Add(EpochRowOf(*gang_));
  KeepComparableSteps();
  for (const Rank& rank : gang_->ranks) deps_.registry->StepsStarted(rank.target.incarnation);
  RememberLinks();
  record_.AddEvent(GangFormedEvent(*gang_),
                   absl::StrCat("gang ", gang_->epoch, ": ", gang_->world_size(),
                                " ranks, from step ", gang_->start_step));
  record_.Apply(state::JobEvent::kFormed, "running").IgnoreError();  // FORMING
  CommitJournal();
  StartRun();
}

// For the plans of later gangs, of later controllers too.
void JobDriver::RememberLinks() {
  std::vector<scheduler::Worker> workers;
  for (const Rank& rank : gang_->ranks) {
    const scheduler::Worker* worker = deps_.registry->Find(rank.target.incarnation);
    if (worker == nullptr) return;
    workers.push_back(*worker);
  }
  if (!deps_.registry->links().Remember(workers, gang_->links)) return;
  const std::string kind = scheduler::GangKind(workers);
  for (const plan::LinkSpeed& link : gang_->links) {
    deps_.journal->Add(store::LinkRow{
        .gang = kind, .bytes = link.bytes, .bytes_per_second = link.bytes_per_second});
  }
}

// Steps that an earlier epoch trained beyond the checkpoint; then the gang forms.
void JobDriver::ReadRecordedSteps() {
  auto rows = std::make_shared<std::map<int64_t, store::StepRow>>();
  deps_.loop->Offload(
      Lane::kFiles,
      [history = deps_.journal->store()->history(), id = job().id(), from = start_state_.step,
       rows] {
        const absl::StatusOr<std::vector<store::StepRow>> steps = history->Steps(id, from);
        if (!steps.ok()) return;  // costs the comparison, not the job
        for (const store::StepRow& row : *steps) rows->emplace(row.step, row);
      },
      lifetime_.Wrap([this, rows] {
        recorded_ = std::move(*rows);
        formation_->Start();
      }));
}

// The replay must give the same bits, unless world size, fingerprint, GEMM table or what the plan
// computes changed.
void JobDriver::KeepComparableSteps() {
  store::Store* store = deps_.journal->store();
  const absl::StatusOr<std::vector<store::EpochRow>> epochs = store->Epochs(job().id());
  if (!epochs.ok()) recorded_.clear();
  std::map<uint64_t, bool> must_agree;  // by epoch
  const size_t dropped = std::erase_if(recorded_, [&](const auto& entry) {
    const uint64_t trained_in = entry.second.epoch;
    const auto [known, first] = must_agree.try_emplace(trained_in, false);
    if (first) {
      known->second = std::any_of(epochs->begin(), epochs->end(), [&](const auto& epoch) {
        return epoch.epoch == trained_in && MustAgree(epoch, *gang_, store);
      });
    }
    return !known->second;
  });
  if (dropped > 0) {
    record_.AddEvent(
        NotComparedWarning(gang_->fingerprint),
        "some replayed steps ran under another fingerprint (build, device, hosts of the ranks, "
        "order of sums), world size, GEMM table or plan: they "
        "are not compared bit by bit");
  }
}

void JobDriver::StartRun() {
  StepRunArgs args;
  args.curriculum = curriculum_.get();
  args.rules = {.total_steps = curriculum_->total_steps(),
                .eval_steps = spec_.eval_steps,
                .save_steps = spec_.save_steps,
                .test_save = spec_.test_save,
                .has_eval = !curriculum_->eval_bins().empty(),
                .has_prompts = !curriculum_->questions().ids.empty()};
  args.start = start_state_;
  args.start.applied_updates = gang_->applied_updates;
  args.patience = spec_.early_stopping_patience;
  args.end_at = row().stop_at_step;
  StepRunEvents events;
  // Cut by TearDown and ReleaseGang: an ended run may still hear from its ranks.
  events.on_step = lifetime_.Wrap(
      [this](const StepResult& result, const InFlight& command) { OnStep(result, command); });
  events.on_eval = lifetime_.Wrap(
      [this](const checkpoint::EvalPoint& point, bool is_best) { OnEval(point, is_best); });
  events.on_answers =
      lifetime_.Wrap([this](int64_t step, const Answers& answers, double seconds, bool whole) {
        OnAnswers(step, answers, seconds, whole);
      });
  events.on_snapshot =
      lifetime_.Wrap([this](int64_t step, int64_t sent_ns) { OnSnapshot(step, sent_ns); });
  events.on_snapshot_delayed = lifetime_.Wrap([this](int64_t step) { OnSnapshotDelayed(step); });
  events.on_end = lifetime_.Wrap([this] { OnEnd(); });
  events.on_failed = lifetime_.Wrap([this](const v1::Error& error) { AttemptFailed(error); });
  run_ = std::make_shared<StepRun>(deps_, gang_.get(), std::move(args), std::move(events));
  run_->Start();
}

}  // namespace coxswain::driver
