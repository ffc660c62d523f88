// Predicted time of training on one GPU: the sum of its products, attention and memory traffic,
// each at a rate of that GPU. Nothing overlaps; launches are not counted (steps are graphs).
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_GPU_TIME_H_

#include <cstdint>

#include "common/gpu_table.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Rates of other products, as shares of GpuRates::product_flops_per_second, which is that of a
// linear's forward and of the gradient of its input. Source of this and of the other constants: a
// fit to the steps of bench/results on H200 and H100, which have one set in common
// (tests/bench/recorded_steps_test.cc).
//
// Gradients of weights, written or added in the gradient's type.
inline constexpr double kWeightGradientShare = 0.86;
// Experts of a mixture, about 1,024 rows each, whether routers are even or not.
inline constexpr double kGroupedShare = 0.81;
// Products of float32, without tensor cores. Not measured: 60 % of the 67 TFLOP/s of the data sheet
// of an H200, over 685 TFLOP/s.
inline constexpr double kFloat32Share = 0.058;

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
