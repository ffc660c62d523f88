#include "controller/driver/training/trainer_state.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "controller/checkpoint/checkpoint_files.h"

namespace coxswain::driver {
namespace {

using nlohmann::json;

// A number JSON can carry: null for NaN and infinity.
json Number(uint64_t bits) { return json(std::bit_cast<double>(bits)); }

double Rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

double TotalFlops(const TrainerStateInput& in) {
  return in.flops_per_token * static_cast<double>(in.run.tokens);
}

// Names as transformers' Trainer and TRL's SFTTrainer give them.
json EvalEntry(const TrainerStateInput& in, const checkpoint::EvalPoint& eval, int64_t eval_bins,
               int64_t eval_documents) {
  json entry = {
      {"epoch", in.curriculum.passes_after(eval.step)},
      {"eval_loss", eval.loss},
      {"eval_runtime", eval.seconds},
      {"eval_samples_per_second", Rate(static_cast<double>(eval_documents), eval.seconds)},
      {"eval_steps_per_second", Rate(static_cast<double>(eval_bins), eval.seconds)},
      {"step", eval.step}};
  if (eval.token_accuracy) entry["eval_mean_token_accuracy"] = *eval.token_accuracy;
  if (eval.margin) entry["eval_rewards/margins"] = *eval.margin;
  if (eval.accuracy) {
    entry[eval.margin ? "eval_rewards/accuracies" : "eval_accuracy"] = *eval.accuracy;
  }
  if (!eval.margin && !eval.accuracy) entry["eval_perplexity"] = eval.perplexity();
  return entry;
}

json Summary(const TrainerStateInput& in) {
  double sum = 0;
  int64_t count = 0;
  for (const store::StepRow& row : in.steps) {
    const double loss = std::bit_cast<double>(row.loss_bits);
    if (row.step >= in.run.step || !std::isfinite(loss)) continue;
    sum += loss;
    ++count;
  }
  const double passes = in.curriculum.passes_after(in.run.step);
  const double documents = static_cast<double>(in.curriculum.summary().documents()) * passes;
  return {{"epoch", passes},
          {"step", in.run.step},
          {"total_flos", TotalFlops(in)},
          {"train_loss", count > 0 ? json(sum / static_cast<double>(count)) : json()},
          {"train_runtime", in.run.seconds},
          {"train_samples_per_second", Rate(documents, in.run.seconds)},
          {"train_steps_per_second", Rate(static_cast<double>(in.run.step), in.run.seconds)}};
}

bool IsComplete(const TrainerStateInput& in) {
  return in.run.step >= in.curriculum.total_steps() ||
         in.run.early_stop.Exhausted(in.spec.early_stopping_patience);
}

json LogHistory(const TrainerStateInput& in) {
  json history = json::array();
  const int64_t eval_bins = static_cast<int64_t>(in.curriculum.eval_bins().size());
  const int64_t eval_documents = in.curriculum.summary().eval_documents();
  auto eval = in.run.evals.begin();
  const auto add_evals_up_to = [&](int64_t step) {
    for (; eval != in.run.evals.end() && eval->step <= step; ++eval) {
      history.push_back(EvalEntry(in, *eval, eval_bins, eval_documents));
    }
  };
  add_evals_up_to(0);
  for (const store::StepRow& row : in.steps) {
    const int64_t finished = row.step + 1;
    if (finished > in.run.step) break;
    if (finished % std::max<int64_t>(in.spec.logging_steps, 1) == 0) {
      history.push_back({{"epoch", in.curriculum.passes_after(finished)},
                         {"grad_norm", Number(row.gnorm_bits)},
                         {"learning_rate", row.learning_rate},
                         {"loss", Number(row.loss_bits)},
                         {"step", finished}});
    }
    add_evals_up_to(finished);
  }
  if (IsComplete(in)) history.push_back(Summary(in));
  return history;
}

json Callbacks(const TrainerStateInput& in) {
  json callbacks = {{"TrainerControl",
                     {{"args",
                       {{"should_epoch_stop", false},
                        {"should_evaluate", false},
                        {"should_log", false},
                        {"should_save", true},
                        {"should_training_stop", IsComplete(in)}}},
                      {"attributes", json::object()}}}};
  if (in.spec.early_stopping_patience) {
    callbacks["EarlyStoppingCallback"] = {
        {"args",
         {{"early_stopping_patience", *in.spec.early_stopping_patience},
          {"early_stopping_threshold", 0.0}}},
        {"attributes",
         {{"early_stopping_patience_counter", in.run.early_stop.without_improvement}}}};
  }
  return callbacks;
}

}  // namespace

std::string TrainerStateJson(const TrainerStateInput& in) {
  const auto& best = in.run.early_stop.best;
  const int64_t total = in.curriculum.total_steps();
  json out = {{"best_global_step", best ? json(best->step) : json()},
              {"best_metric",
               best ? json(ValueOf(*best, checkpoint::MetricNamed(in.spec.eval_metric))) : json()},
              {"best_model_checkpoint",
               best && best->step > 0
                   ? json(checkpoint::CheckpointDirectory(in.spec.output_dir, best->step))
                   : json()},
              {"epoch", in.curriculum.passes_after(in.run.step)},
              {"eval_steps", in.spec.eval_steps},
              {"global_step", in.run.step},
              {"is_hyper_param_search", false},
              {"is_local_process_zero", true},
              {"is_world_process_zero", true},
              {"log_history", LogHistory(in)},
              {"logging_steps", in.spec.logging_steps},
              {"max_steps", total},
              {"num_input_tokens_seen", in.run.tokens},
              {"num_train_epochs", total > 0 ? in.curriculum.pass_of_step(total - 1) + 1 : 0},
              {"save_steps", in.spec.save_steps},
              {"stateful_callbacks", Callbacks(in)},
              {"total_flos", TotalFlops(in)},
              {"train_batch_size", in.micro_batch_bins},
              {"trial_name", nullptr},
              {"trial_params", nullptr}};
  return out.dump(2) + "\n";
}

}  // namespace coxswain::driver
