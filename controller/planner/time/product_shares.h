// Rates of other products, as shares of GpuRates::product_flops_per_second, which is that of a
// linear's forward and of the gradient of its input. Source of these and of the constants of
// gpu_time.cc: a fit to the steps of bench/results on H200 and H100, which have one set in common
// (tests/bench/recorded_steps_test.cc).
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_PRODUCT_SHARES_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_PRODUCT_SHARES_H_

namespace coxswain::planner {

// Gradients of weights, written or added in the gradient's type.
inline constexpr double kWeightGradientShare = 0.86;
// Experts of a mixture, about 1,024 rows each, whether routers are even or not.
inline constexpr double kGroupedShare = 0.81;
// Products of float32, without tensor cores. Not measured: 60 % of the 67 TFLOP/s of the data sheet
// of an H200, over 685 TFLOP/s.
inline constexpr double kFloat32Share = 0.058;

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_PRODUCT_SHARES_H_
