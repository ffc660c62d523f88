#include "controller/driver/job/job_export.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/staging.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/make_events.h"

namespace coxswain::driver {
namespace {

constexpr std::chrono::seconds kRetry{5};

struct Work {
  Files* files = nullptr;
  LaneWork* lane_work = nullptr;
  std::shared_ptr<OutputClaim> output;
  ExportInput input;  // but for the checkpoint
  std::vector<checkpoint::KnownCheckpoint> checkpoints;
  std::vector<int64_t> steps;
};

absl::StatusOr<ExportedTo> Export(const Work& work, ExportAttempt* attempt) {
  RETURN_IF_ERROR(EnterOutput(work.files, work.output.get(), work.input.spec));
  const absl::StatusOr<size_t> intact =
      checkpoint::FirstIntact(work.files, work.checkpoints, &attempt->warnings);
  attempt->damaged = absl::IsDataLoss(intact.status());
  RETURN_IF_ERROR(intact.status());
  attempt->step = work.steps[*intact];
  ExportInput from = work.input;
  from.checkpoint_dir = work.checkpoints[*intact].directory;
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(work.files, from.checkpoint_dir));
  from.author.step = attempt->step;
  from.author.origin = checkpoint::OriginOf(manifest, from.author.job);
  return work.lane_work->export_artifacts(from);
}

}  // namespace

std::vector<const v1::CheckpointInfo*> CheckpointsToExport(const v1::Job& job,
                                                           const config::JobSpec& spec) {
  std::vector<const v1::CheckpointInfo*> infos;
  for (const v1::CheckpointInfo& info : job.checkpoints()) infos.push_back(&info);
  const int64_t best = spec.early_stopping_patience ? job.progress().best_step() : -1;
  std::sort(infos.begin(), infos.end(), [best](const auto* a, const auto* b) {
    const bool a_best = a->step() == best, b_best = b->step() == best;
    if (a_best != b_best) return a_best;
    if (best >= 0 && a->has_eval() != b->has_eval()) return a->has_eval();
    if (best >= 0 && a->eval_loss() != b->eval_loss()) return a->eval_loss() < b->eval_loss();
    return a->step() > b->step();
  });
  return infos;
}

void JobExport::Start() {
  const v1::Job& job = record_->job();
  auto attempt = std::make_shared<ExportAttempt>();
  auto work = std::make_shared<Work>();
  for (const v1::CheckpointInfo* info : CheckpointsToExport(job, *spec_)) {
    work->checkpoints.push_back(
        {.directory = info->directory(), .digest = info->digest(), .job = job.id()});
    work->steps.push_back(info->step());
  }
  const std::shared_ptr<OutputClaim> output = output_->Claim();
  const absl::StatusOr<std::string> plan = deps_.journal->store()->PlanBytes(job.plan_hash());
  auto done = lifetime_.Wrap([this, attempt] { OnTried(*attempt); });
  // A store that cannot be read now is waited for.
  const bool later = !plan.ok() && !absl::IsNotFound(plan.status());
  attempt->damaged = work->checkpoints.empty() || (!plan.ok() && !later);
  if (attempt->damaged || later) {
    attempt->result = plan.ok() ? absl::DataLossError("no committed checkpoint to export from")
                                : absl::Status(later ? absl::StatusCode::kUnavailable
                                                     : absl::StatusCode::kNotFound,
                                               plan.status().message());
    deps_.loop->Post(done);
    return;
  }
  work->files = deps_.files;
  work->lane_work = deps_.lane_work;
  work->output = output;
  work->input = {.spec = *spec_,
                 .plan_bytes = *plan,
                 .checkpoint_dir = "",
                 .owner = checkpoint::EndingOf({job.id(), deps_.registry->term(), job.epoch()}),
                 .author = {.job = job.id()},
                 .guard = [output](const auto& work) { return output->WhileHeld(work); }};
  deps_.loop->Offload(
      Lane::kExport,
      GuardedInto(std::shared_ptr<absl::StatusOr<ExportedTo>>(attempt, &attempt->result),
                  [attempt, work] { attempt->result = Export(*work, attempt.get()); }),
      done);
}

void JobExport::OnTried(const ExportAttempt& attempt) {
  for (const std::string& warning : attempt.warnings) record_->AddEvent(WarningEvent(), warning);
  const absl::Status& status = attempt.result.status();
  if (!absl::IsUnavailable(status)) {
    tried_(attempt);
    return;
  }
  if (std::exchange(waits_, true) == false) {
    record_->AddEvent(WarningEvent(), absl::StrCat("the export waits: ", status.message()));
  }
  deps_.loop->After(kRetry, lifetime_.Wrap([this] { Start(); }));
}

}  // namespace coxswain::driver
