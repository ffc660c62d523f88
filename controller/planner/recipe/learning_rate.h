// The learning-rate schedule as a pure function of the step.
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_LEARNING_RATE_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_LEARNING_RATE_H_

#include <cstdint>

#include "common/config/job_spec.h"

namespace coxswain::planner {

struct LearningRate {
  double peak = 0.0;
  double min_ratio = 0.0;  // the decay ends at min_ratio x peak
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  config::LrScheduler scheduler = config::LrScheduler::kCosine;
  int64_t num_cycles = 1;   // cosine_with_restarts
  double power = 1.0;       // polynomial
  int64_t timescale = 1;    // inverse_sqrt
  int64_t decay_steps = 0;  // warmup_stable_decay, at most the steps after warm-up
  config::DecayType decay_type = config::DecayType::kCosine;

  // W = warmup_steps, N = total_steps, t = (step - W) / (N - W), m = min_ratio:
  // step < W: peak (step + 1) / W; then peak (m + (1 - m) d) with
  //   constant              d = 1
  //   cosine                d = (1 + cos(pi t)) / 2
  //   linear                d = 1 - t
  //   cosine_with_restarts  d = (1 + cos(pi (num_cycles t mod 1))) / 2
  //   polynomial            d = (1 - t)^power
  //   inverse_sqrt          d = sqrt(timescale / (step - W + timescale))
  //   warmup_stable_decay   d = 1; over the last D = decay_steps with u = (step - (N - D)) / D:
  //                         1 - u (linear), (1 + cos(pi u)) / 2 (cosine), 1 - sqrt(u) (1-sqrt)
  // The first step of the warm-up is not 0 (ARCHITECTURE.md, "Training semantics"). Source:
  // transformers, optimization.py,
  // get_{cosine_with_hard_restarts,polynomial_decay,inverse_sqrt,wsd}_schedule: lr_end of the
  // second is m x peak, the third has m = 0.
  double At(int64_t step) const;
};

// warmup_steps, or ceil(warmup_ratio x total_steps). Source: transformers, get_warmup_steps.
int64_t WarmupSteps(const config::TrainSpec& train, int64_t total_steps);

LearningRate MakeLearningRate(const config::TrainSpec& train, int64_t total_steps);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_LEARNING_RATE_H_
