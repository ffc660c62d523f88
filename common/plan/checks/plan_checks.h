// Ranges of every field of a plan: what a worker may rely on without asking again.
#ifndef COXSWAIN_COMMON_PLAN_CHECKS_PLAN_CHECKS_H_
#define COXSWAIN_COMMON_PLAN_CHECKS_PLAN_CHECKS_H_

#include "absl/status/status.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// InvalidArgument "plan: <field> is <value>, expected <range>" for the first field out of range.
absl::Status CheckPlan(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_CHECKS_PLAN_CHECKS_H_
