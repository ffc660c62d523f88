// The learning-rate schedule as a pure function of the step.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LEARNING_RATE_H_
#define COXSWAIN_CONTROLLER_PLANNER_LEARNING_RATE_H_

#include <cstdint>

#include "common/config/job_spec.h"

namespace coxswain::planner {

struct LearningRate {
  double peak = 0.0;
  double min_ratio = 0.0;  // the decay ends at min_ratio x peak
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  config::LrScheduler scheduler = config::LrScheduler::kCosine;

  // W = warmup_steps, N = total_steps, t = (step - W) / (N - W):
  // step < W: peak (step + 1) / W; then constant: peak, else peak (m + (1 - m) d(t)) with
  // cosine d = (1 + cos(pi t)) / 2, linear d = 1 - t. Source: design.md section 6.
  double At(int64_t step) const;
};

// warmup_steps, or ceil(warmup_ratio x total_steps). Source: transformers, get_warmup_steps.
int64_t WarmupSteps(const config::TrainSpec& train, int64_t total_steps);

LearningRate MakeLearningRate(const config::TrainSpec& train, int64_t total_steps);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LEARNING_RATE_H_
