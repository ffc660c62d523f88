// RUNNING: what committed steps, evaluations and snapshots mean for the job.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/fault_point.h"
#include "common/hash.h"
#include "common/logging.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/store_rows.h"
#include "controller/driver/trainer_state.h"

namespace coxswain::driver {
namespace {

void KeepHighest(const v1::MemoryBytes& seen, v1::MemoryBytes* highest) {
  highest->set_weights(std::max(highest->weights(), seen.weights()));
  highest->set_gradients(std::max(highest->gradients(), seen.gradients()));
  highest->set_optimizer(std::max(highest->optimizer(), seen.optimizer()));
  highest->set_activations(std::max(highest->activations(), seen.activations()));
  highest->set_workspace(std::max(highest->workspace(), seen.workspace()));
  highest->set_peak(std::max(highest->peak(), seen.peak()));
}

}  // namespace

void JobDriver::UpdateProgress(const checkpoint::RunState& run) {
  v1::Progress& progress = *record_.edit().mutable_progress();
  progress.set_step(run.step);
  progress.set_tokens(run.tokens);
  progress.set_loss(run.loss);
  progress.set_grad_norm(run.grad_norm);
  progress.set_learning_rate(run.step > 0 ? curriculum_->learning_rate(run.step - 1) : 0);
  progress.set_skipped_steps(run.skipped.total);
  progress.set_pass(run.step < progress.total_steps() ? curriculum_->pass_of_step(run.step)
                                                      : progress.pass());
  progress.set_has_eval(!run.evals.empty());
  if (!run.evals.empty()) {
    const checkpoint::EvalPoint& newest = run.evals.back();
    progress.set_eval_loss(newest.loss);
    progress.set_eval_perplexity(newest.perplexity());
    progress.clear_eval_token_accuracy();
    if (newest.token_accuracy) progress.set_eval_token_accuracy(*newest.token_accuracy);
    if (run.evals.front().step == 0) progress.set_first_eval_loss(run.evals.front().loss);
  }
  if (run.early_stop.best) {
    progress.set_best_eval_loss(run.early_stop.best->loss);
    progress.set_best_step(run.early_stop.best->step);
  }
  deps_.metrics->Progress(job().id(), progress.step(), progress.total_steps());
  record_.Changed();
}

void JobDriver::OnStep(const StepResult& result, const InFlight& command) {
  const StepTiming& timing = run_->timing();
  const double rate = timing.tokens_per_second();
  const double lr = curriculum_->learning_rate(result.step);
  const int64_t total = curriculum_->total_steps();
  v1::Progress& progress = *record_.edit().mutable_progress();
  progress.set_tokens_per_second(rate);
  progress.set_eta_seconds(phase() == v1::JOB_STATE_RUNNING
                               ? static_cast<double>(total - result.step - 1) *
                                     timing.seconds_per_step()
                               : 0);
  for (const auto& done : command.results) {
    KeepHighest(done->memory(), record_.edit().mutable_measured_memory());
  }
  UpdateProgress(run_->state());
  CheckReplay(result);
  deps_.journal->Add(store::StepRow{.job = job().id(),
                                    .step = result.step,
                                    .epoch = gang_->epoch,
                                    .loss_bits = result.loss_bits,
                                    .gnorm_bits = result.gnorm_bits,
                                    .tokens = result.tokens,
                                    .learning_rate = lr});
  if ((result.step + 1) % std::max<int64_t>(spec_.logging_steps, 1) == 0) {
    log::Info(absl::StrCat("step ", result.step + 1, "/", total), {{"job", job().id()},
                                                                   {"epoch", gang_->epoch},
                                                                   {"step", result.step},
                                                                   {"loss", result.loss},
                                                                   {"grad_norm", result.grad_norm},
                                                                   {"learning_rate", lr},
                                                                   {"tokens_per_second", rate}});
  }
  const double seconds = timing.last_seconds();
  record_.AddEvent(StepDoneEvent(result, command,
                                 {.total_steps = total,
                                  .epoch = gang_->epoch,
                                  .learning_rate = lr,
                                  .tokens_per_second = rate,
                                  .seconds = seconds,
                                  .pass = curriculum_->pass_of_step(result.step)}),
                   absl::StrFormat("step %d/%d loss %.4f grad norm %.4f", result.step + 1, total,
                                   result.loss, result.grad_norm));
  if (!result.applied) {
    record_.AddEvent(StepSkippedEvent(result, command),
                     absl::StrCat("step ", result.step + 1,
                                  " had a non-finite gradient norm: its update was skipped"));
  }
  deps_.metrics->Step(job().id(), {.loss = result.loss,
                                   .grad_norm = result.grad_norm,
                                   .learning_rate = lr,
                                   .tokens = result.tokens,
                                   .tokens_per_second = rate,
                                   .mfu = gang_->Mfu(rate),
                                   .seconds = seconds,
                                   .finished_steps = result.step + 1,
                                   .total_steps = total,
                                   .eta_seconds = progress.eta_seconds(),
                                   .applied = result.applied});
  CheckPace();
  if (!recorded_.contains(result.step)) committed_seconds_ += seconds;
  const double wall =
      static_cast<double>(deps_.loop->clock().UnixMs() - job().started_unix_ms()) * 1e-3;
  if (wall > 0) deps_.metrics->Goodput(job().id(), std::min(1.0, committed_seconds_ / wall));
}

// A rank that holds the others up is told of, never killed.
void JobDriver::CheckPace() {
  const GangPace::Summary pace = run_->pace().summary();
  if (pace.steps == 0) return;
  deps_.metrics->Pace(job().id(), {.control_idle_ratio = pace.control_idle_ratio,
                                   .slowest_rank = pace.slowest,
                                   .slowest_ratio = pace.slowest_ratio()});
  const std::optional<int> rank = run_->NewStraggler();
  if (!rank) return;
  const double seconds = pace.ranks[static_cast<size_t>(*rank)].compute_seconds;
  const std::string& host = gang_->ranks[static_cast<size_t>(*rank)].host;
  record_.AddEvent(
      StragglerEvent(*rank, *gang_, pace),
      absl::StrFormat("rank %d on %s computes %.2f times as long as the median of the other ranks "
                      "(%.4f s against %.4f s a step, over %d steps): look at its clocks, its "
                      "temperature and what else runs there. The job goes on at its pace",
                      *rank, host, pace.slowest_ratio(), seconds, pace.peer_median_seconds,
                      pace.steps));
}

// Invariant driver-6: a replayed step reproduces the recorded bits.
void JobDriver::CheckReplay(const StepResult& result) {
  const auto before = recorded_.find(result.step);
  if (before == recorded_.end()) return;
  const store::StepRow& row = before->second;
  if (row.loss_bits == result.loss_bits && row.gnorm_bits == result.gnorm_bits) return;
  const std::string message = absl::StrFormat(
      "step %d replayed in gang %d gave loss %.17g and grad norm %.17g, gang %d gave %.17g and "
      "%.17g: a bug or silent corruption",
      result.step, gang_->epoch, result.loss, result.grad_norm, row.epoch,
      std::bit_cast<double>(row.loss_bits), std::bit_cast<double>(row.gnorm_bits));
  record_.AddEvent(ReplayDivergenceEvent(result.step, gang_->epoch, row.epoch), message);
  if (!replay_divergence_.empty()) return;
  replay_divergence_ = message;
  deps_.loop->Post(lifetime_.Wrap([this] {
    v1::Error error =
        MakeError(absl::DataLossError(absl::StrCat("ReplayDivergence: ", replay_divergence_)),
                  {.phase = "train"});
    Fail(error);
  }));
}

void JobDriver::OnEval(const checkpoint::EvalPoint& point, bool is_best) {
  UpdateProgress(run_->state());
  deps_.metrics->Eval(job().id(), {.loss = point.loss,
                                   .perplexity = point.perplexity(),
                                   .token_accuracy = point.token_accuracy});
  const double accuracy = point.token_accuracy.value_or(0);  // an answer of this run has one
  record_.AddEvent(
      EvalDoneEvent(point, is_best),
      absl::StrFormat("evaluation at step %d: loss %.4f, perplexity %.4g, token accuracy %.1f %%%s",
                      point.step, point.loss, point.perplexity(), 100 * accuracy,
                      is_best ? " (best so far)" : ""));
  if (run_->state().early_stop.Exhausted(spec_.early_stopping_patience)) {
    record_.AddEvent(EarlyStoppedEvent(point.step, *run_->state().early_stop.best),
                     absl::StrCat("no improvement in ",
                                  run_->state().early_stop.without_improvement, " evaluations"));
  }
}

void JobDriver::OnSnapshot(int64_t step, int64_t sent_ns) {
  checkpoint::CommitRequest request;
  request.output_dir = spec_.output_dir;
  checkpoint::Manifest& manifest = request.manifest;
  manifest.job = job().id();
  manifest.term = gang_->term;
  manifest.epoch = gang_->epoch;
  manifest.recipe_hash = ToHex(curriculum_->recipe_hash());
  manifest.plan_hash = ToHex(gang_->plan_hash);
  manifest.fingerprint = gang_->fingerprint;
  manifest.world_size = gang_->world_size();
  manifest.pass = curriculum_->passes_after(step);
  manifest.run = run_->state();
  CommitJournal();  // the trainer state is made of committed steps
  auto trainer_state = [history = deps_.journal->store()->history(), id = job().id(), spec = spec_,
                        curriculum = curriculum_, run = manifest.run,
                        flops_per_token = gang_->flops_per_token,
                        micro_batch_bins = gang_->micro_batch_bins] {
    const absl::StatusOr<std::vector<store::StepRow>> steps = history->Steps(id, 0);
    return TrainerStateJson({.spec = spec,
                             .curriculum = *curriculum,
                             .run = run,
                             .flops_per_token = flops_per_token,
                             .micro_batch_bins = micro_batch_bins,
                             .steps = steps.ok() ? *steps : std::vector<store::StepRow>()});
  };
  CheckpointSaver::Done done;
  done.saved = lifetime_.Wrap(
      [this, sent_ns](const checkpoint::Manifest& saved) { OnSaved(saved, sent_ns); });
  done.failed = lifetime_.Wrap([this, step](const v1::Error& error) { SaveFailed(step, error); });
  saver_ = std::make_unique<CheckpointSaver>(deps_, gang_.get(), output_, std::move(request),
                                             std::move(trainer_state), std::move(done));
  saver_->Start();
}

void JobDriver::OnSnapshotDelayed(int64_t step) {
  record_.AddEvent(
      WarningEvent(),
      absl::StrFormat(
          "the checkpoint of step %d is delayed: that of step %d is still being written "
          "after %.1f s. It is taken when that is done; raise checkpoint.save_steps "
          "(%d), or give checkpoint.output_dir faster storage",
          step, saver_ ? saver_->step() : 0, saver_ ? saver_->seconds() : 0, spec_.save_steps));
}

v1::CheckpointInfo JobDriver::InfoOf(const checkpoint::Manifest& manifest,
                                     const std::string& directory) const {
  v1::CheckpointInfo info;
  info.set_step(manifest.run.step);
  info.set_directory(directory);
  info.set_bytes(manifest.total_bytes());
  info.set_committed_unix_ms(deps_.loop->clock().UnixMs());
  const auto& evals = manifest.run.evals;
  if (!evals.empty() && evals.back().step == manifest.run.step) {
    info.set_eval_loss(evals.back().loss);
    info.set_has_eval(true);
  }
  return info;
}

void JobDriver::OnSaved(const checkpoint::Manifest& manifest, int64_t sent_ns) {
  DestroyLater(saver_);
  const v1::CheckpointInfo info =
      InfoOf(manifest, checkpoint::CheckpointDirectory(spec_.output_dir, manifest.run.step));
  damaged_.erase(info.directory());
  deps_.journal->Add(CheckpointRowOf(job().id(), manifest.epoch, info));
  auto& known = *record_.edit().mutable_checkpoints();
  const bool advanced = std::all_of(known.begin(), known.end(),
                                    [&](const auto& old) { return old.step() < info.step(); });
  known.erase(std::remove_if(known.begin(), known.end(),
                             [&](const auto& old) { return old.step() == info.step(); }),
              known.end());
  *record_.edit().add_checkpoints() = info;
  if (advanced) record_.CheckpointAdvanced();
  held_up_ = 0;
  const double seconds = static_cast<double>(deps_.loop->clock().NowNs() - sent_ns) * 1e-9;
  deps_.metrics->Checkpoint(job().id(), seconds, info.bytes(), info.committed_unix_ms());
  deps_.metrics->CheckpointStep(job().id(), info.step(), spec_.save_steps);
  ObserveOutput();
  record_.AddEvent(CheckpointCommittedEvent(info, seconds),
                   absl::StrCat("checkpoint of step ", info.step()));
  CommitJournal();
  fault::Pass(fault::Point::kCheckpointStored, {.step = info.step()});
  Retain();
  if (run_ != nullptr) run_->SaveFinished();
}

void JobDriver::ObserveOutput() {
  auto free_bytes = std::make_shared<absl::StatusOr<int64_t>>(0);
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      [files, output_dir = spec_.output_dir, free_bytes] {
        *free_bytes = files->FreeBytes(output_dir);
      },
      lifetime_.Wrap([this, free_bytes] {
        if (state::IsTerminal(phase()) || !free_bytes->ok()) return;
        deps_.metrics->OutputFree(job().id(), **free_bytes);
      }));
}

// The new checkpoint was read back when it was committed, so older ones may go.
void JobDriver::Retain() {
  std::vector<int64_t> steps;
  for (const v1::CheckpointInfo& info : job().checkpoints()) {
    if (info.directory() == checkpoint::CheckpointDirectory(spec_.output_dir, info.step())) {
      steps.push_back(info.step());
    }
  }
  const auto& best = run_->state().early_stop.best;
  const std::vector<int64_t> old =
      checkpoint::Superseded(steps, spec_.save_total_limit, best ? best->step : -1);
  auto& known = *record_.edit().mutable_checkpoints();
  for (const int64_t step : old) {
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&](const auto& info) { return info.step() == step; });
    if (it == known.end()) continue;
    const std::string directory = it->directory();
    store::CheckpointRow row = CheckpointRowOf(job().id(), 0, *it);
    row.deleted = true;
    deps_.journal->Add(std::move(row));
    known.erase(it);
    record_.AddEvent(CheckpointDeletedEvent(step, directory),
                     absl::StrCat("checkpoint of step ", step, " is superseded"));
    deps_.loop->Offload(
        Lane::kFiles,
        [files = deps_.files, output = output_, directory] {
          output
              ->WhileHeld([&] {
                RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointDrop));
                return files->RemoveAll(directory);
              })
              .IgnoreError();
        },
        [] {});
  }
}

}  // namespace coxswain::driver
