// Warns of settings that are far from the recommended ones.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADVICE_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::planner {

// One sentence each, naming key, value and recommendation (table of the job reference). The
// settings stay as they are. A number is far when it is four times above or below.
// `compute_capability`: of the GPU, x 10; 0: unknown or none.
std::vector<std::string> Advise(const config::JobSpec& job, const plan::Plan& plan,
                                const Recipe& recipe, int32_t compute_capability);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADVICE_H_
