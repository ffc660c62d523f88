// trainer_state.json of a checkpoint, as plotting tools of the Hugging Face Trainer read it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINER_STATE_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINER_STATE_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "controller/checkpoint/run_state.h"
#include "controller/driver/training/curriculum.h"
#include "controller/store/store.h"

namespace coxswain::driver {

struct TrainerStateInput {
  const config::JobSpec& spec;
  const Curriculum& curriculum;
  const checkpoint::RunState& run;           // at the checkpoint
  double flops_per_token = 0;                // forward and backward, of the plan
  int64_t micro_batch_bins = 1;              // of the plan
  const std::vector<store::StepRow>& steps;  // lineage below run.step, by step
};

// Source: transformers, trainer_callback.py, TrainerState. `epoch` there counts passes.
// Times are those of the lineage: steps and evaluations, not the waits between attempts. A sample
// is a document, an evaluation step a bin. The last entry of log_history, written when no step is
// left, sums up: train_loss is the mean of the finite losses in `steps`.
std::string TrainerStateJson(const TrainerStateInput& input);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_TRAINER_STATE_H_
