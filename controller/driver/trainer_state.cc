#include "controller/driver/trainer_state.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "controller/driver/checkpoint_files.h"

namespace coxswain::driver {
namespace {

using nlohmann::json;

// A number JSON can carry: null for NaN and infinity.
json Number(uint64_t bits) { return json(std::bit_cast<double>(bits)); }

json LogHistory(const TrainerStateInput& in) {
  json history = json::array();
  auto eval = in.run.evals.begin();
  const auto add_evals_up_to = [&](int64_t step) {
    for (; eval != in.run.evals.end() && eval->step <= step; ++eval) {
      history.push_back({{"epoch", in.curriculum.passes_after(eval->step)},
                         {"eval_loss", eval->loss},
                         {"step", eval->step}});
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
  return history;
}

json Callbacks(const TrainerStateInput& in) {
  json callbacks = {
      {"TrainerControl",
       {{"args",
         {{"should_epoch_stop", false},
          {"should_evaluate", false},
          {"should_log", false},
          {"should_save", true},
          {"should_training_stop", in.run.step >= in.curriculum.total_steps()}}},
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
  json out = {
      {"best_global_step", best ? json(best->step) : json()},
      {"best_metric", best ? json(best->loss) : json()},
      {"best_model_checkpoint",
       best && best->step > 0 ? json(CheckpointDirectory(in.spec.output_dir, best->step)) : json()},
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
      {"total_flos", 0.0},
      {"train_batch_size", in.spec.train.micro_batch_size.value_or(1)},
      {"trial_name", nullptr},
      {"trial_params", nullptr}};
  return out.dump(2) + "\n";
}

}  // namespace coxswain::driver
