// How a plan adds gradients that are kept in bfloat16.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_GRADIENT_SUM_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_GRADIENT_SUM_H_

#include <cstdint>
#include <string>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Terms of a step up to which `precision.gradient_sum: auto` rounds to nearest: the error, which
// grows with the root of their number, is then below 1 % of the gradient's norm
// (tests/kernels/tensors/gradient_sum_test.cc measures it).
inline constexpr int64_t kMostNearestTerms = 64;

// plan::GradientTerms in a step of the whole global batch, on the rank with most of it.
int64_t GradientTermsOfStep(int64_t global_batch_bins, const plan::Plan& plan);

// Whether the plan, whose layout has been applied, fits `memory_bytes` (0: no limit) with one of
// the sums that the job allows. Above kMostNearestTerms `auto` takes the first that fits of:
// gradients in float32, where the job leaves their format open; compensated sums; stochastic
// rounding. Sets gradient_dtype and gradient_sum, and fits experts (fit_experts.h); where nothing
// fits, the last of them.
bool FitGradientSum(const config::JobSpec& job, int64_t global_batch_bins, uint64_t memory_bytes,
                    plan::Plan* plan);

// A larger chunk of the head, for which memory was left, may have made the sum needless.
void DropNeedlessSum(const config::JobSpec& job, int64_t global_batch_bins, plan::Plan* plan);

// "compensated, 128 terms in a step, more than 64" and the like; empty where no gradient is summed
// in bfloat16.
std::string GradientSumText(const config::JobSpec& job, int64_t global_batch_bins,
                            const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_GRADIENT_SUM_H_
