// Describes a job that continues from a checkpoint of a recipe with another length.
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_EXTENSION_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_EXTENSION_H_

#include <cstdint>
#include <string>

#include "common/config/job_spec.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::planner {

// One line for people: both lengths, the learning rate of the next step under both schedules, and
// where the data continues. `step`: finished steps of the checkpoint, from 1 to
// recipe.total_steps() - 1. `total_steps`: steps of the checkpoint's recipe.
std::string ExtensionText(const config::JobSpec& job, const Recipe& recipe, int64_t step,
                          int64_t total_steps);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_EXTENSION_H_
