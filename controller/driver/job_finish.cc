// DRAINING and EXPORTING: how a run ends in good order.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/staging.h"
#include "controller/driver/enter_output.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"

namespace coxswain::driver {
namespace {

constexpr std::chrono::milliseconds kReleaseTimeout{10000};
constexpr std::chrono::seconds kExportRetry{5};

}  // namespace

// Everything asked of the gang is done: the whole job, the requested steps, or a drain.
void JobDriver::OnEnd() {
  deps_.loop->CancelTimer(drain_timer_);
  const bool complete = run_->state().step >= curriculum_->total_steps() ||
                        run_->state().early_stop.Exhausted(spec_.early_stopping_patience);
  const bool stepped = run_->state().step > start_state_.step;
  ReleaseGang();
  if (phase() == v1::JOB_STATE_DRAINING) {
    Drained();
    return;
  }
  if (complete) {
    record_
        .Apply(state::JobEvent::kStepsFinished,
               stepped ? "all steps are done" : "no step was left")
        .IgnoreError();  // RUNNING
    CommitJournal();
    config::OnlyGenerates(spec_) ? EndWithAnswers() : Export();
  } else {
    record_.Apply(state::JobEvent::kPauseRequested, "the requested steps are done")
        .IgnoreError();  // RUNNING
    Drained();
  }
  hooks_.reschedule();
}

// There is nothing to export.
void JobDriver::EndWithAnswers() {
  record_.Apply(state::JobEvent::kExported, "every prompt is answered").IgnoreError();  // EXPORTING
  CommitJournal();
  curriculum_.reset();
}

void JobDriver::Drained() {
  record_.Apply(state::JobEvent::kDrained, "drained").IgnoreError();  // DRAINING
  CommitJournal();
  if (phase() == v1::JOB_STATE_QUEUED) {
    KeepWorkers();
    Prepare();
  }
  hooks_.reschedule();
}

// The run stays alive until every rank answered: cancelling its streams would look like a failure.
void JobDriver::ReleaseGang() {
  lifetime_.Reset();
  DestroyLater(saver_);
  std::shared_ptr<Gang> gang = std::move(gang_);
  std::shared_ptr<StepRun> run = std::move(run_);
  gang_.reset();
  run_.reset();
  if (auto next = state::Transition(gang->status, state::GangEvent::kFinished); next.ok()) {
    gang->status = *next;
  }
  scheduler::Registry* registry = deps_.registry;
  for (int rank = 0; rank < gang->world_size(); ++rank) {
    v1::ReleaseRequest request;
    *request.mutable_fence() = gang->FenceOf(rank);
    const std::string incarnation = gang->ranks[rank].target.incarnation;
    deps_.transport->Release(gang->ranks[rank].target, request, kReleaseTimeout,
                             [registry, gang, run, rank,
                              incarnation](const absl::StatusOr<v1::ReleaseResponse>& response) {
                               if (response.ok()) {
                                 registry->Released(incarnation);
                               } else {
                                 registry->AbortAndFree(incarnation, gang->FenceOf(rank),
                                                        "release failed");
                               }
                             });
    fault::Pass(fault::Point::kReleaseSent, {.rank = rank});
  }
  deps_.loop->Post([gang, run] {});
}

void JobDriver::DrainDeadline() {
  deps_.loop->CancelTimer(drain_timer_);
  const std::chrono::milliseconds five(
      static_cast<int64_t>(5000 * (run_ ? run_->timing().median_seconds() : 0)));
  const std::chrono::milliseconds limit = std::max(deps_.settings.drain_floor, five);
  drain_timer_ = deps_.loop->Deadline(limit, lifetime_.Wrap([this, limit] {
    if (run_ == nullptr || run_->quiet()) return;  // a checkpoint being written has its own limit
    run_->GiveUp(absl::DeadlineExceededError(absl::StrCat(
        "outstanding commands did not finish within ", limit.count(), " ms of the drain")));
  }));
}

// Where to export from, best first: the newest, or with early stopping the lowest evaluation.
std::vector<const v1::CheckpointInfo*> JobDriver::ToExport() const {
  std::vector<const v1::CheckpointInfo*> infos;
  for (const v1::CheckpointInfo& info : job().checkpoints()) infos.push_back(&info);
  const int64_t best = spec_.early_stopping_patience ? job().progress().best_step() : -1;
  std::sort(infos.begin(), infos.end(), [best](const auto* a, const auto* b) {
    const bool a_best = a->step() == best, b_best = b->step() == best;
    if (a_best != b_best) return a_best;
    if (best >= 0 && a->has_eval() != b->has_eval()) return a->has_eval();
    if (best >= 0 && a->eval_loss() != b->eval_loss()) return a->eval_loss() < b->eval_loss();
    return a->step() > b->step();
  });
  return infos;
}

struct JobDriver::ExportAttempt {
  absl::StatusOr<ExportedTo> result;
  int64_t step = 0;      // of the checkpoint
  bool damaged = false;  // all of them: waiting mends none
  std::vector<std::string> warnings;
};

void JobDriver::Export() {
  std::vector<std::string> directories;
  std::vector<int64_t> steps;
  for (const v1::CheckpointInfo* info : ToExport()) {
    directories.push_back(info->directory());
    steps.push_back(info->step());
  }
  if (directories.empty()) {
    Fail(MakeError(absl::DataLossError("no committed checkpoint to export from"),
                   {.phase = "export"}));
    return;
  }
  absl::StatusOr<std::string> plan = deps_.journal->store()->PlanBytes(job().plan_hash());
  if (!plan.ok()) {
    Fail(MakeError(plan.status(), {.phase = "export"}));
    return;
  }
  std::shared_ptr<OutputClaim> output = ClaimOutput();
  ExportInput input{
      .spec = spec_,
      .plan_bytes = *plan,
      .checkpoint_dir = "",
      .owner = checkpoint::EndingOf({job().id(), deps_.registry->term(), job().epoch()}),
      .guard = [output](const auto& work) { return output->WhileHeld(work); }};
  auto attempt = std::make_shared<ExportAttempt>();
  const auto run = [work = deps_.lane_work, files = deps_.files, output, input, directories, steps,
                    attempt]() -> absl::StatusOr<ExportedTo> {
    RETURN_IF_ERROR(EnterOutput(files, output.get(), input.spec));
    const absl::StatusOr<size_t> intact =
        checkpoint::FirstIntact(files, directories, &attempt->warnings);
    attempt->damaged = absl::IsDataLoss(intact.status());
    RETURN_IF_ERROR(intact.status());
    attempt->step = steps[*intact];
    ExportInput from = input;
    from.checkpoint_dir = directories[*intact];
    return work->export_artifacts(from);
  };
  deps_.loop->Offload(
      Lane::kExport, [attempt, run] { attempt->result = run(); },
      lifetime_.Wrap([this, attempt] { OnExported(*attempt); }));
}

void JobDriver::OnExported(const ExportAttempt& attempt) {
  if (phase() != v1::JOB_STATE_EXPORTING) return;
  for (const std::string& warning : attempt.warnings) {
    record_.AddEvent(WarningEvent(), warning);
  }
  if (absl::IsUnavailable(attempt.result.status())) {
    if (std::exchange(export_waits_, true) == false) {
      record_.AddEvent(WarningEvent(),
                       absl::StrCat("the export waits: ", attempt.result.status().message()));
    }
    deps_.loop->After(kExportRetry, lifetime_.Wrap([this] { Export(); }));
    return;
  }
  if (attempt.damaged) {
    Fail(MakeError(attempt.result.status(), {.phase = "export"}));
    return;
  }
  if (!attempt.result.ok()) {
    ExportFailed(attempt.result.status());
    return;
  }
  const ExportedTo& to = *attempt.result;
  record_.edit().set_artifact_dir(to.directory);
  record_.edit().set_merged_dir(to.merged_directory);
  record_.AddEvent(ExportedEvent(attempt.step, to),
                   absl::StrCat("artifacts of step ", attempt.step, " in ", to.directory,
                                to.merged_directory.empty() ? "" : " and ", to.merged_directory));
  record_.Apply(state::JobEvent::kExported, "succeeded").IgnoreError();  // EXPORTING
  CommitJournal();
  fault::Pass(fault::Point::kJobEnded);
  curriculum_.reset();
  hooks_.reschedule();
}

}  // namespace coxswain::driver
