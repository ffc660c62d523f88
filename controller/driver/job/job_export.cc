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

}  // namespace

struct JobExport::Work {
  Files* files = nullptr;
  LaneWork* lane_work = nullptr;
  std::shared_ptr<OutputClaim> output;
  ExportInput input;  // but for the checkpoint
  std::vector<checkpoint::KnownCheckpoint> checkpoints;
  std::vector<int64_t> steps;
};

// The input with the best checkpoint that is intact.
absl::StatusOr<ExportInput> JobExport::FromIntact(const Work& work, ExportAttempt* attempt) {
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
  return from;
}

absl::StatusOr<ExportedTo> JobExport::Export(const Work& work, ExportAttempt* attempt) {
  if (work.input.staged) {
    RETURN_IF_ERROR(work.output->Take());
    return work.lane_work->export_artifacts(work.input);
  }
  ASSIGN_OR_RETURN(const ExportInput from, FromIntact(work, attempt));
  return work.lane_work->export_artifacts(from);
}

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

// NotFound: there is nothing to export from. Unavailable: the store cannot be read now.
absl::StatusOr<std::shared_ptr<JobExport::Work>> JobExport::MakeWork() {
  const v1::Job& job = job_.record.job();
  auto work = std::make_shared<Work>();
  for (const v1::CheckpointInfo* info : CheckpointsToExport(job, job_.spec)) {
    work->checkpoints.push_back(
        {.directory = info->directory(), .digest = info->digest(), .job = job.id()});
    work->steps.push_back(info->step());
  }
  const std::shared_ptr<OutputClaim> output = job_.output.Claim();
  const absl::StatusOr<std::string> plan = job_.deps.journal->store()->PlanBytes(job.plan_hash());
  if (!plan.ok() && !absl::IsNotFound(plan.status())) {
    return absl::UnavailableError(plan.status().message());
  }
  RETURN_IF_ERROR(plan.status());
  if (work->checkpoints.empty()) {
    return absl::DataLossError("no committed checkpoint to export from");
  }
  work->files = job_.deps.files;
  work->lane_work = job_.deps.lane_work;
  work->output = output;
  work->input = {.spec = job_.spec,
                 .plan_bytes = *plan,
                 .checkpoint_dir = "",
                 .owner = checkpoint::EndingOf({job.id(), job_.deps.registry->term(), job.epoch()}),
                 .author = {.job = job.id()},
                 .guard = [output](const auto& work) { return output->WhileHeld(work); },
                 .unverified = WhyUnverified()};
  return work;
}

std::string JobExport::WhyUnverified() const {
  if (!job_.spec.export_verify) return "export.verify is false";
  if (!unverified_.empty()) return unverified_;
  return "it was written when its gang had gone";
}

void JobExport::Stage(std::function<void(const StagedAttempt&)> staged) {
  staged_.reset();
  kept_ = false;
  const absl::StatusOr<std::shared_ptr<Work>> work = MakeWork();
  auto attempt = std::make_shared<ExportAttempt>();
  auto result = std::make_shared<absl::StatusOr<StagedExport>>();
  auto from = std::make_shared<ExportInput>();
  auto done = lifetime_.Wrap([this, attempt, result, from, staged = std::move(staged)] {
    for (const std::string& warning : attempt->warnings) {
      job_.record.AddEvent(WarningEvent(), warning);
    }
    staged_ = Written{.input = std::move(*from), .step = attempt->step};
    staged({.result = *result,
            .step = attempt->step,
            .checkpoint_dir = staged_->input.checkpoint_dir});
  });
  if (!work.ok()) {
    *result = work.status();
    job_.deps.loop->Post(done);
    return;
  }
  job_.deps.loop->Offload(Lane::kExport,
                          GuardedInto(result,
                                      [work = *work, attempt, result, from] {
                                        *result = [&]() -> absl::StatusOr<StagedExport> {
                                          ASSIGN_OR_RETURN(*from, FromIntact(*work, attempt.get()));
                                          return work->lane_work->stage_export(*from);
                                        }();
                                      }),
                          done);
}

void JobExport::Keep(StagedExport staged) {
  staged_->input.staged = std::move(staged);
  kept_ = true;
}

void JobExport::Stop() {
  lifetime_.Reset();
  staged_.reset();
  kept_ = false;
}

void JobExport::Start() {
  auto attempt = std::make_shared<ExportAttempt>();
  auto done = lifetime_.Wrap([this, attempt] { OnTried(*attempt); });
  absl::StatusOr<std::shared_ptr<Work>> work = MakeWork();
  if (!work.ok()) {
    // A store that cannot be read now is waited for.
    attempt->damaged = !absl::IsUnavailable(work.status());
    attempt->result = work.status();
    job_.deps.loop->Post(done);
    return;
  }
  if (std::exchange(kept_, false)) {
    attempt->step = staged_->step;
    (*work)->input = std::move(staged_->input);
  }
  job_.deps.loop->Offload(
      Lane::kExport,
      GuardedInto(std::shared_ptr<absl::StatusOr<ExportedTo>>(attempt, &attempt->result),
                  [attempt, work = *work] { attempt->result = Export(*work, attempt.get()); }),
      done);
}

void JobExport::OnTried(const ExportAttempt& attempt) {
  for (const std::string& warning : attempt.warnings) job_.record.AddEvent(WarningEvent(), warning);
  const absl::Status& status = attempt.result.status();
  if (!absl::IsUnavailable(status)) {
    job_.listener.OnExported(attempt);
    return;
  }
  if (std::exchange(waits_, true) == false) {
    job_.record.AddEvent(WarningEvent(), absl::StrCat("the export waits: ", status.message()));
  }
  job_.deps.loop->After(kRetry, lifetime_.Wrap([this] { Start(); }));
}

}  // namespace coxswain::driver
