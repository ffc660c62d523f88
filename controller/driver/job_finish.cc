// DRAINING and EXPORTING: how a run ends in good order.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/job_driver.h"

namespace coxswain::driver {
namespace {

constexpr std::chrono::milliseconds kReleaseTimeout{10000};

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
    record_.Apply(state::JobEvent::kStepsFinished,
                  stepped ? "all steps are done" : "no step was left")
        .IgnoreError();  // RUNNING
    SayFlush();
    Export();
  } else {
    record_.Apply(state::JobEvent::kPauseRequested, "the requested steps are done")
        .IgnoreError();  // RUNNING
    Drained();
  }
  hooks_.reschedule();
}

void JobDriver::Drained() {
  record_.Apply(state::JobEvent::kDrained, "drained").IgnoreError();  // DRAINING
  SayFlush();
  if (phase() == v1::JOB_STATE_QUEUED) Prepare();
  hooks_.reschedule();
}

// The run stays alive until every rank answered: cancelling its streams would look like a failure.
void JobDriver::ReleaseGang() {
  lifetime_.Reset();
  Bury(saver_);
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
    deps_.transport->Release(
        gang->ranks[rank].target, request, kReleaseTimeout,
        [registry, gang, run, rank,
         incarnation](const absl::StatusOr<v1::ReleaseResponse>& response) {
          if (response.ok()) {
            registry->Released(incarnation);
          } else {
            registry->AbortAndFree(incarnation, gang->FenceOf(rank), "release failed");
          }
        });
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

void JobDriver::Export() {
  if (job().checkpoints().empty()) {
    Fail(MakeError(absl::DataLossError("no committed checkpoint to export from"),
                   {.phase = "export"}));
    return;
  }
  const v1::CheckpointInfo* chosen = nullptr;
  for (const v1::CheckpointInfo& info : job().checkpoints()) {
    if (chosen == nullptr || info.step() > chosen->step()) chosen = &info;
  }
  if (spec_.early_stopping_patience) {
    for (const v1::CheckpointInfo& info : job().checkpoints()) {
      if (info.step() == job().progress().best_step()) chosen = &info;
    }
  }
  absl::StatusOr<std::string> plan = deps_.journal->store()->PlanBytes(job().plan_hash());
  if (!plan.ok()) {
    Fail(MakeError(plan.status(), {.phase = "export"}));
    return;
  }
  auto result = std::make_shared<absl::StatusOr<std::string>>();
  const int64_t step = chosen->step();
  ExportInput input{.spec = spec_, .plan_bytes = *plan, .checkpoint_dir = chosen->directory()};
  deps_.loop->Offload(
      Lane::kExport,
      [work = deps_.long_work, input, result] { *result = work->export_artifacts(input); },
      lifetime_.Wrap([this, result, step] {
        if (phase() != v1::JOB_STATE_EXPORTING) return;
        if (!result->ok()) {
          Fail(MakeError(result->status(), {.phase = "export"}));
          return;
        }
        record_.edit().set_artifact_dir(**result);
        record_.AddEvent("Exported", absl::StrCat("artifacts of step ", step, " in ", **result),
                         {{"directory", **result}, {"step", step}});
        record_.Apply(state::JobEvent::kExported, "succeeded").IgnoreError();  // EXPORTING
        SayFlush();
        curriculum_.reset();
        hooks_.reschedule();
      }));
}

}  // namespace coxswain::driver
