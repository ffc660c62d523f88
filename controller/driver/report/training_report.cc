#include "controller/driver/report/training_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/logging.h"
#include "common/model/flops.h"
#include "controller/checkpoint/loss_trend.h"
#include "controller/driver/records/make_events.h"
#include "controller/driver/records/store_rows.h"
#include "controller/driver/report/progress.h"
#include "controller/failure/errors.h"

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

// e^loss says nothing of a loss of pairs.
std::string EvalText(const checkpoint::EvalPoint& point,
                     const std::optional<v1::Preference>& preference) {
  if (preference && preference->of() == v1::Preference::LABELS) {
    return absl::StrFormat("accuracy %.1f %%", 100 * preference->accuracies());
  }
  if (preference && preference->of() == v1::Preference::NUMBERS) {
    return absl::StrFormat("mean %+.4f, of the records %+.4f", preference->rewards_chosen(),
                           preference->rewards_rejected());
  }
  if (preference) {
    return absl::StrFormat("rewards of chosen %+.4f and rejected %+.4f",
                           preference->rewards_chosen(), preference->rewards_rejected());
  }
  const double accuracy = point.token_accuracy.value_or(0);  // an answer of this run has one
  return absl::StrFormat("perplexity %.4g, token accuracy %.1f %%", point.perplexity(),
                         100 * accuracy);
}

}  // namespace

TrainingReport::TrainingReport(const Deps& deps, Args args) : deps_(deps), args_(std::move(args)) {}

std::optional<v1::Error> TrainingReport::OnStep(const StepResult& result, const Batch& batch,
                                                const gang::InFlight& command,
                                                const checkpoint::RunState& run) {
  JobRecord& record = *args_.record;
  if (!command.again) rate_.Add(command.seconds(), result.tokens);
  const int64_t left = args_.curriculum->total_steps() - result.step - 1;
  v1::Progress& progress = *record.edit().mutable_progress();
  progress.set_tokens_per_second(rate_.tokens_per_second());
  progress.set_eta_seconds(record.phase() == v1::JOB_STATE_RUNNING
                               ? static_cast<double>(left) * rate_.seconds_per_step()
                               : 0);
  progress.clear_experts();
  if (result.experts) *progress.mutable_experts() = *result.experts;
  if (result.preference) *progress.mutable_preference() = *result.preference;
  for (const auto& done : command.results) {
    KeepHighest(done->memory(), record.edit().mutable_measured_memory());
  }
  ShowProgress(run, *args_.curriculum, &record, deps_.metrics);
  std::optional<v1::Error> diverged = CheckReplay(result);
  Record(result, batch, command);
  Measure(result, command.seconds());
  const bool known = args_.replays.Find(result.step) != nullptr;
  if (run.loss_trend.RoseAt(run.step) && !known) {
    record.AddEvent(
        WarningEvent(),
        checkpoint::RiseText(*run.loss_trend.rise, args_.curriculum->learning_rate(result.step)));
  }
  return diverged;
}

void TrainingReport::Record(const StepResult& result, const Batch& batch,
                            const gang::InFlight& command) {
  JobRecord& record = *args_.record;
  const uint64_t epoch = args_.gang->epoch;
  const double learning_rate = args_.curriculum->learning_rate(result.step);
  const double rate = rate_.tokens_per_second();
  const int64_t total = args_.curriculum->total_steps();
  deps_.journal->Add(store::StepRow{.job = record.id(),
                                    .step = result.step,
                                    .epoch = epoch,
                                    .loss_bits = result.loss_bits,
                                    .gnorm_bits = result.gnorm_bits,
                                    .tokens = result.tokens,
                                    .learning_rate = learning_rate});
  if ((result.step + 1) % std::max<int64_t>(args_.spec->logging_steps, 1) == 0) {
    log::Info(absl::StrCat("step ", result.step + 1, "/", total), {{"job", record.id()},
                                                                   {"epoch", epoch},
                                                                   {"step", result.step},
                                                                   {"loss", result.loss},
                                                                   {"grad_norm", result.grad_norm},
                                                                   {"learning_rate", learning_rate},
                                                                   {"tokens_per_second", rate}});
  }
  record.AddEvent(StepDoneEvent(result, batch, command,
                                {.total_steps = total,
                                 .epoch = epoch,
                                 .learning_rate = learning_rate,
                                 .tokens_per_second = rate,
                                 .seconds = command.seconds(),
                                 .pass = args_.curriculum->pass_of_step(result.step)}),
                  absl::StrFormat("step %d/%d loss %.4f grad norm %.4f", result.step + 1, total,
                                  result.loss, result.grad_norm));
  if (result.applied) return;
  record.AddEvent(StepSkippedEvent(result, batch, command),
                  absl::StrCat("step ", result.step + 1,
                               " had a non-finite gradient norm: its update was skipped"));
}

void TrainingReport::Measure(const StepResult& result, double seconds) {
  const v1::Job& job = args_.record->job();
  const double rate = rate_.tokens_per_second();
  deps_.metrics->Step(job.id(), {.loss = result.loss,
                                 .grad_norm = result.grad_norm,
                                 .learning_rate = args_.curriculum->learning_rate(result.step),
                                 .tokens = result.tokens,
                                 .tokens_per_second = rate,
                                 .mfu = model::ModelFlopsUtilisation(args_.flops_per_token, rate,
                                                                     args_.gang->PeakFlops()),
                                 .seconds = seconds,
                                 .finished_steps = result.step + 1,
                                 .total_steps = args_.curriculum->total_steps(),
                                 .eta_seconds = job.progress().eta_seconds(),
                                 .applied = result.applied,
                                 .experts = result.experts,
                                 .preference = result.preference});
  if (args_.replays.Find(result.step) == nullptr) *args_.committed_seconds += seconds;
  const double wall =
      static_cast<double>(deps_.loop->clock().UnixMs() - job.started_unix_ms()) * 1e-3;
  if (wall > 0) deps_.metrics->Goodput(job.id(), std::min(1.0, *args_.committed_seconds / wall));
}

// Invariant driver-6: a replayed step reproduces the recorded bits.
std::optional<v1::Error> TrainingReport::CheckReplay(const StepResult& result) {
  const store::StepRow* before = args_.replays.Find(result.step);
  if (before == nullptr) return std::nullopt;
  const std::string message = Divergence(result, args_.gang->epoch, *before);
  if (message.empty()) return std::nullopt;
  args_.record->AddEvent(ReplayDivergenceEvent(result.step, args_.gang->epoch, before->epoch),
                         message);
  return failure::MakeBug(absl::DataLossError(absl::StrCat("ReplayDivergence: ", message)),
                          {.phase = "train"});
}

void TrainingReport::OnEval(const checkpoint::EvalPoint& point,
                            const std::optional<v1::Preference>& preference, bool is_best,
                            const checkpoint::RunState& run) {
  JobRecord& record = *args_.record;
  if (preference) *record.edit().mutable_progress()->mutable_eval_preference() = *preference;
  deps_.journal->Add(EvalRowOf(*args_.gang, point));
  ShowProgress(run, *args_.curriculum, &record, deps_.metrics);
  deps_.metrics->Eval(record.id(), {.loss = point.loss,
                                    .perplexity = point.perplexity(),
                                    .token_accuracy = point.token_accuracy,
                                    .preference = preference});
  record.AddEvent(EvalDoneEvent(point, preference, is_best),
                  absl::StrFormat("evaluation at step %d: loss %.4f, %s%s", point.step, point.loss,
                                  EvalText(point, preference), is_best ? " (best so far)" : ""));
  if (!run.early_stop.Exhausted(args_.spec->early_stopping_patience)) return;
  record.AddEvent(
      EarlyStoppedEvent(point.step, *run.early_stop.best),
      absl::StrCat("no improvement in ", run.early_stop.without_improvement, " evaluations"));
}

}  // namespace coxswain::driver
