// RUNNING: what the job's program is, and what becomes of its results.
#include <utility>

#include "common/guarded.h"
#include "controller/driver/job/job_driver.h"
#include "controller/driver/report/answer_report.h"
#include "controller/driver/report/training_report.h"

namespace coxswain::driver {

std::shared_ptr<Training> JobDriver::MakeTraining(const Readoption* found) {
  auto report = std::make_shared<TrainingReport>(
      deps_, TrainingReport::Args{.record = &record_,
                                  .spec = &spec_,
                                  .curriculum = preparation_.curriculum(),
                                  .gang = &context_.session->gang(),
                                  .flops_per_token = attempt_.plan().flops_per_token,
                                  .replays = attempt_.TakeReplays(),
                                  .committed_seconds = &committed_seconds_});
  auto answers = std::make_shared<AnswerReport>(&record_, preparation_.curriculum());
  TrainingArgs args{.curriculum = preparation_.curriculum(),
                    .rules = {.total_steps = preparation_.curriculum()->total_steps(),
                              .eval_steps = spec_.eval_steps,
                              .save_steps = spec_.save_steps,
                              .test_save = spec_.test_save,
                              .has_eval = !preparation_.curriculum()->eval_bins().empty(),
                              .has_prompts = !preparation_.curriculum()->questions().ids.empty()},
                    .start = attempt_.start_state(),
                    .patience = spec_.early_stopping_patience,
                    .metric = checkpoint::MetricNamed(spec_.eval_metric),
                    .end_at = row().stop_at_step,
                    .work = attempt_.plan().work,
                    .micro_batch_bins = attempt_.plan().micro_batch_bins,
                    .references = KnownReferences()};
  if (found != nullptr) {
    args.position = found->position();
    args.sent_before = found->sent();
  }
  if (phase() == v1::JOB_STATE_DRAINING) args.drains_at = row().drain_step;
  args.start.applied_updates = context_.session->gang().applied_updates;
  TrainingEvents events;
  events.on_step = [report](const StepResult& result, const Batch& batch,
                            const gang::InFlight& command, const checkpoint::RunState& run) {
    return report->OnStep(result, batch, command, run);
  };
  events.on_eval = [report](const checkpoint::EvalPoint& point,
                            const std::optional<v1::Preference>& preference, bool is_best,
                            const checkpoint::RunState& run) {
    report->OnEval(point, preference, is_best, run);
  };
  events.on_answers = [answers](int64_t step, const Answers& all, double seconds, bool whole) {
    if (whole) answers->TellWhole(step, all, seconds);
  };
  events.on_references = [this](std::shared_ptr<const ReferenceSums> sums) {
    KeepReferences(std::move(sums));
  };
  events.on_snapshot = [this](Training* training, int64_t sent_ns) {
    SaveCheckpoint(training, sent_ns);
  };
  if (spec_.export_verify) events.proof = ProofEvents();
  events.on_snapshot_delayed = [this](int64_t step) { checkpoints_.Delayed(step); };
  return std::make_shared<Training>(&context_.session->gang(), std::move(args), std::move(events));
}

ProofAsking::Events JobDriver::ProofEvents() {
  return {.wanted =
              [this] {
                proof_.Want({.training = static_cast<Training*>(program_.get()),
                             .curriculum = preparation_.curriculum(),
                             .load_seconds = forming_seconds_});
              },
          .answered = [this](const ProofAnswers& answers) { proof_.Answered(answers); }};
}

std::shared_ptr<const ReferenceSums> JobDriver::KnownReferences() const {
  return references_ != nullptr ? references_ : preparation_.curriculum()->references();
}

// They cannot be computed again once a step is done: they are durable before the first.
void JobDriver::KeepReferences(std::shared_ptr<const ReferenceSums> sums) {
  auto status = std::make_shared<absl::Status>();
  std::weak_ptr<gang::Program> program = program_;
  deps_.loop->Offload(
      Lane::kFiles,
      GuardedInto(status, [work = deps_.lane_work, curriculum = preparation_.curriculum(), sums,
                           status] { *status = work->keep_references(*curriculum, *sums); }),
      lifetime_.Wrap([this, program, sums, status] {
        const std::shared_ptr<gang::Program> asking = program.lock();
        if (asking == nullptr || asking != program_) return;  // its attempt has ended
        if (!status->ok()) {
          v1::Error error = failure::MakeError(*status, {.phase = "references"});
          error.set_kind(v1::ERROR_KIND_STORAGE);
          return OnAttemptFailed(error);
        }
        references_ = sums;
        static_cast<Training&>(*asking).ReferencesKept();
        readoption_.Record(*context_.session, *program_);
        context_.session->GoOn();
      }));
}

// `training` lives until checkpoints_ is stopped.
void JobDriver::SaveCheckpoint(Training* training, int64_t sent_ns) {
  const checkpoint::RunState run = *training->saving_run();
  const int64_t step = run.step;
  JobCheckpoints::Events events;
  // Recorded before any command follows from it: which one is next depends on it.
  events.finished = [this, training] {
    training->SaveFinished();
    readoption_.Record(*context_.session, *program_);
  };
  events.committed = [this, step] {
    recovery_.HeldUpNoMore();
    attempt_.WrittenAnew(step);
    context_.session->GoOn();
  };
  events.given_up = [this] { context_.session->GoOn(); };
  events.failed = [this](const v1::Error& error) { OnAttemptFailed(error); };
  events.facts = [this, training, step]() -> failure::SaveFacts {
    const std::optional<checkpoint::EvalPoint>& best = training->state().early_stop.best;
    return {.is_best = spec_.early_stopping_patience && best && best->step == step,
            .is_last = training->at_end(),
            .cancelled = record_.status().drain_goal == v1::JOB_STATE_CANCELLED};
  };
  checkpoints_.Save({.gang = &context_.session->gang(),
                     .output = output_.claim(),
                     .curriculum = preparation_.curriculum(),
                     .run = run,
                     .origin = attempt_.origin(),
                     .flops_per_token = attempt_.plan().flops_per_token,
                     .micro_batch_bins = attempt_.plan().micro_batch_bins,
                     .bytes = attempt_.plan().checkpoint_bytes,
                     .sent_ns = sent_ns},
                    events);
}

}  // namespace coxswain::driver
