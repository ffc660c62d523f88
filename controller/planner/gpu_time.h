// Predicted time of training on one GPU: the sum of its products, attention and memory traffic,
// each at a rate of that GPU. Nothing overlaps; launches are not counted (steps are graphs).
#ifndef COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_

#include <cstdint>

#include "common/gpu_table.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// What a step of one kind takes beside a product of bfloat16, as parts of its rate.
//
// Products of the experts of a mixture, about 1,024 rows each, whether routers are even or not.
// Source: what the steps of bench/results/h200_experts.json leave for them, 560 of 640 TFLOP/s.
inline constexpr double kGroupedShare = 0.875;
// Products of float32, without tensor cores. Not measured: 60 % of the 67 TFLOP/s of the data sheet
// of H200, over 640 TFLOP/s.
inline constexpr double kFloat32Share = 0.0625;

struct GpuTime {
  double token = 0;          // seconds per token slot: forward, backward, recomputation
  double forward_token = 0;  // the forward alone, for evaluation
  double step = 0;           // seconds per update, independent of its tokens
};

// `attention_span`: length of a token's document, averaged over tokens.
GpuTime PredictGpuTime(const plan::Plan& plan, int64_t attention_span, const GpuRates& rates);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_
