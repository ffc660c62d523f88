// Plans of releases that did not carry the ops of the model.
#ifndef COXSWAIN_COMMON_PLAN_CHECKS_EARLIER_PLAN_H_
#define COXSWAIN_COMMON_PLAN_CHECKS_EARLIER_PLAN_H_

#include "absl/status/status.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Gives `plan`, whose parameters have names and extents alone, the blocks of its family and what
// the parameters are in them, so that a job of an earlier release can be exported. InvalidArgument
// names a parameter that the model does not have.
absl::Status CompleteEarlierPlan(Plan* plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_CHECKS_EARLIER_PLAN_H_
