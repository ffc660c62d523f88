// Which gradients are summed in bfloat16, of how many terms, and in what memory. A term is what one
// product adds: that of a micro-step, of the head that of a chunk. float32 gradients, and those in
// the slots of ZeRO, which hold one term, are not among them.
#ifndef COXSWAIN_COMMON_PLAN_GRADIENT_SUM_H_
#define COXSWAIN_COMMON_PLAN_GRADIENT_SUM_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::plan {

// "nearest" | "stochastic" | "compensated".
const char* GradientSumName(GradientSum sum);

// Whether the gradient of a parameter is a sum in bfloat16.
bool IsSummedInBfloat16(const Plan& plan, const model::Parameter& parameter);

// Terms of the gradient in bfloat16 that has most of them, in a step of so many micro-steps on a
// rank; 0: no gradient is summed in bfloat16.
int64_t GradientTerms(const Plan& plan, int64_t micro_steps);

// Of "gradient_term", which holds a product in float32 before it is added, a range of its rows at a
// time: kGradientTermBytes at most, but of stacks of experts one expert, and of linears in FP8 the
// whole. 0: products add themselves.
inline constexpr int64_t kGradientTermBytes = int64_t{64} << 20;
int64_t GradientTermBytes(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_GRADIENT_SUM_H_
