// What changes for a job that goes on from a checkpoint of a recipe of another length.
#ifndef COXSWAIN_CONTROLLER_PLANNER_EXTENSION_H_
#define COXSWAIN_CONTROLLER_PLANNER_EXTENSION_H_

#include <cstdint>
#include <string>

#include "common/config/job_spec.h"
#include "controller/planner/recipe.h"

namespace coxswain::planner {

// One line for people: both lengths, the learning rate of the next step under the schedule of
// either, and where the data goes on. `step`: finished ones of the checkpoint, 1 to those of
// `recipe` - 1; `total_steps`: of the recipe that it is of.
std::string ExtensionText(const config::JobSpec& job, const Recipe& recipe, int64_t step,
                          int64_t total_steps);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_EXTENSION_H_
