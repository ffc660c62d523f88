// Copies settings from a job into its plan unchanged.
#ifndef COXSWAIN_CONTROLLER_PLANNER_PLAN_SCALARS_H_
#define COXSWAIN_CONTROLLER_PLANNER_PLAN_SCALARS_H_

#include <string>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// `recipe_hash`: 32 bytes.
void SetScalars(const std::string& job_id, const config::JobSpec& job,
                const std::string& recipe_hash, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_PLAN_SCALARS_H_
