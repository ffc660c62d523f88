// Predicted time of training on one GPU: the sum of its products, attention and memory traffic,
// each at a rate measured on one H200. Nothing overlaps; launches are not counted (steps are
// graphs).
#ifndef COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Source of all numbers: one H200, CUDA 13.0, cuBLASLt 13.1, cuDNN 9.19, under sustained load at
// 700 W.
inline constexpr double kBfloat16FlopsPerSecond = 640e12;  // GEMMs of 0.5B and 7B: 610-670
// Of the experts of a mixture, about 1,024 rows each, whether routers are even or not: what the
// steps of bench/results/h200_experts.json leave for them.
inline constexpr double kGroupedFlopsPerSecond = 560e12;
inline constexpr double kBytesPerSecond = 4.28e12;  // copy, read + written
// Not measured: 60 % of the 67 TFLOP/s of the data sheet (float32 without tensor cores).
inline constexpr double kFloat32FlopsPerSecond = 40e12;

struct GpuTime {
  double token = 0;          // seconds per token slot: forward, backward, recomputation
  double forward_token = 0;  // the forward alone, for evaluation
  double step = 0;           // seconds per update, independent of its tokens
};

// `attention_span`: length of a token's document, averaged over tokens.
GpuTime PredictGpuTime(const plan::Plan& plan, int64_t attention_span);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_GPU_TIME_H_
