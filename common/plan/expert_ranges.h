// Quantised experts that are dequantised a few at a time: before the product of experts
// [n i, n (i + 1)) of a stack, these alone are written to "expert_weights", in the stream of the
// product. Their values need the memory of n experts instead of that of two blocks.
#ifndef COXSWAIN_COMMON_PLAN_EXPERT_RANGES_H_
#define COXSWAIN_COMMON_PLAN_EXPERT_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Whether a parameter is a stack of which Plan::experts_at_once are dequantised at a time.
bool InRanges(const Plan& plan, const model::Parameter& parameter);

// Bytes of "expert_weights": the largest range of any stack; 0: nothing is dequantised in ranges.
int64_t ExpertRangeBytes(const Plan& plan);

// Values of Plan::experts_at_once to choose from: all experts, then halves, down to 1. A range
// begins with a block of elements that share a scale, so not every number is in the list; it is
// empty where no expert is quantised.
std::vector<int64_t> ExpertRangeSizes(const Plan& plan);

// InvalidArgument for a value that no stack of the plan can have.
absl::Status CheckExpertRanges(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_EXPERT_RANGES_H_
