// Whether the ops and tensors of a plan fit together, so that the engine may run them as they are.
#ifndef COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_CHECKS_H_
#define COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_CHECKS_H_

#include "absl/status/status.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// InvalidArgument names block, op and both values: of a row that is read and that no earlier op
// wrote in this width, of a tensor that is missing or of another shape, of a number that is out of
// range.
absl::Status CheckArchitecture(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_CHECKS_H_
