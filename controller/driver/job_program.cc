// RUNNING: what the job's program is, and what becomes of its results.
#include <utility>

#include "absl/strings/str_format.h"
#include "controller/driver/answer_report.h"
#include "controller/driver/generation.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/driver/training_report.h"

namespace coxswain::driver {

std::shared_ptr<Training> JobDriver::MakeTraining(std::optional<TrainingPosition> position,
                                                  int64_t sent_before) {
  auto report = std::make_shared<TrainingReport>(
      deps_, TrainingReport::Args{.record = &record_,
                                  .spec = &spec_,
                                  .curriculum = curriculum_,
                                  .gang = &session_->gang(),
                                  .flops_per_token = plan_.flops_per_token,
                                  .replays = std::move(replays_),
                                  .committed_seconds = &committed_seconds_});
  auto answers = std::make_shared<AnswerReport>(&record_, curriculum_);
  TrainingArgs args{.curriculum = curriculum_,
                    .rules = {.total_steps = curriculum_->total_steps(),
                              .eval_steps = spec_.eval_steps,
                              .save_steps = spec_.save_steps,
                              .test_save = spec_.test_save,
                              .has_eval = !curriculum_->eval_bins().empty(),
                              .has_prompts = !curriculum_->questions().ids.empty()},
                    .start = start_state_,
                    .patience = spec_.early_stopping_patience,
                    .end_at = row().stop_at_step,
                    .work = plan_.work,
                    .micro_batch_bins = plan_.micro_batch_bins,
                    .position = std::move(position),
                    .sent_before = sent_before};
  args.start.applied_updates = session_->gang().applied_updates;
  TrainingEvents events;
  events.on_step = [report](const StepResult& result, const Batch& batch,
                            const gang::InFlight& command, const checkpoint::RunState& run) {
    return report->OnStep(result, batch, command, run);
  };
  events.on_eval = [report](const checkpoint::EvalPoint& point, bool is_best,
                            const checkpoint::RunState& run) {
    report->OnEval(point, is_best, run);
  };
  events.on_answers = [answers](int64_t step, const Answers& all, double seconds, bool whole) {
    if (whole) answers->TellWhole(step, all, seconds);
  };
  events.on_snapshot = [this](Training* training, int64_t sent_ns) {
    SaveCheckpoint(training, sent_ns);
  };
  events.on_snapshot_delayed = [this](int64_t step) { checkpoints_.Delayed(step); };
  return std::make_shared<Training>(&session_->gang(), std::move(args), std::move(events));
}

std::shared_ptr<gang::Program> JobDriver::MakeGeneration() {
  auto report = std::make_shared<AnswerReport>(&record_, curriculum_);
  return std::make_shared<Generation>(
      curriculum_, [report, journal = deps_.journal](int64_t step, const Answers& answers,
                                                     double seconds, bool whole) {
        report->TellPieces(answers, whole);
        journal->FlushOrKeep();  // who watches sees it now
        if (whole) report->TellWhole(step, answers, seconds);
      });
}

// `training` lives until checkpoints_ is stopped.
void JobDriver::SaveCheckpoint(Training* training, int64_t sent_ns) {
  const checkpoint::RunState run = *training->saving_run();
  const int64_t step = run.step;
  JobCheckpoints::Events events;
  // Recorded before any command follows from it: which one is next depends on it.
  events.finished = [this, training] {
    training->SaveFinished();
    RecordPosition();
  };
  events.committed = [this, step] {
    held_up_ = 0;
    damaged_.erase(checkpoint::CheckpointDirectory(spec_.output_dir, step));
    session_->GoOn();
  };
  events.given_up = [this] { session_->GoOn(); };
  events.failed = [this](const v1::Error& error) { AttemptFailed(error); };
  events.facts = [this, training, step]() -> failure::SaveFacts {
    const std::optional<checkpoint::EvalPoint>& best = training->state().early_stop.best;
    return {.is_best = spec_.early_stopping_patience && best && best->step == step,
            .is_last = training->at_end(),
            .cancelled = record_.status().drain_goal == v1::JOB_STATE_CANCELLED};
  };
  checkpoints_.Save({.gang = &session_->gang(),
                     .output = output_.claim(),
                     .curriculum = curriculum_,
                     .run = run,
                     .flops_per_token = plan_.flops_per_token,
                     .micro_batch_bins = plan_.micro_batch_bins,
                     .bytes = plan_.checkpoint_bytes,
                     .sent_ns = sent_ns},
                    std::move(events));
}

// A rank that holds the others up is told of, never killed.
void JobDriver::CheckPace() {
  const gang::GangPace::Summary pace = session_->pace().summary();
  if (pace.steps == 0) return;
  deps_.metrics->Pace(job().id(), {.control_idle_ratio = pace.control_idle_ratio,
                                   .slowest_rank = pace.slowest,
                                   .slowest_ratio = pace.slowest_ratio()});
  const std::optional<int> rank = session_->NewStraggler();
  if (!rank) return;
  const double seconds = pace.ranks[static_cast<size_t>(*rank)].compute_seconds;
  const std::string& host = session_->gang().ranks[static_cast<size_t>(*rank)].host;
  record_.AddEvent(
      StragglerEvent(*rank, session_->gang(), pace),
      absl::StrFormat("rank %d on %s computes %.2f times as long as the median of the other ranks "
                      "(%.4f s against %.4f s a step, over %d steps): look at its clocks, its "
                      "temperature and what else runs there. The job goes on at its pace",
                      *rank, host, pace.slowest_ratio(), seconds, pace.peer_median_seconds,
                      pace.steps));
}

}  // namespace coxswain::driver
