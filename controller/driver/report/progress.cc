#include "controller/driver/report/progress.h"

namespace coxswain::driver {

void ShowProgress(const checkpoint::RunState& run, const Curriculum& curriculum, JobRecord* record,
                  Metrics* metrics) {
  v1::Progress& progress = *record->edit().mutable_progress();
  progress.set_step(run.step);
  progress.set_tokens(run.tokens);
  progress.set_loss(run.loss);
  progress.set_grad_norm(run.grad_norm);
  progress.set_learning_rate(run.step > 0 ? curriculum.learning_rate(run.step - 1) : 0);
  progress.set_skipped_steps(run.skipped.total);
  progress.set_pass(run.step < progress.total_steps() ? curriculum.pass_of_step(run.step)
                                                      : progress.pass());
  progress.set_has_eval(!run.evals.empty());
  if (!run.evals.empty()) {
    const checkpoint::EvalPoint& newest = run.evals.back();
    progress.set_eval_loss(newest.loss);
    if (!curriculum.document_loss()) progress.set_eval_perplexity(newest.perplexity());
    progress.clear_eval_token_accuracy();
    if (newest.token_accuracy) progress.set_eval_token_accuracy(*newest.token_accuracy);
    if (run.evals.front().step == 0) progress.set_first_eval_loss(run.evals.front().loss);
  }
  if (run.early_stop.best) {
    progress.set_best_eval_loss(run.early_stop.best->loss);
    progress.set_best_step(run.early_stop.best->step);
  }
  metrics->Progress(record->id(), progress.step(), progress.total_steps());
  record->Changed();
}

}  // namespace coxswain::driver
