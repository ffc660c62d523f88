// Predicted time of training on one GPU: the sum of its products, attention and memory traffic,
// each at a rate of that GPU. Nothing overlaps; launches are not counted (steps are graphs).
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TIME_H_

#include <cstdint>

#include "common/gpu_table.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

struct GpuTime {
  double token = 0;          // seconds per token slot: forward, backward, recomputation
  double forward_token = 0;  // the forward alone, for evaluation
  // Seconds per micro-step, independent of its tokens: weights and gradients in memory.
  double micro_step = 0, forward_micro_step = 0;
  double step = 0;  // seconds per update, independent of its tokens
};

// `attention_span`: length of a token's document, averaged over tokens.
GpuTime PredictGpuTime(const plan::Plan& plan, int64_t attention_span, const GpuRates& rates);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TIME_H_
