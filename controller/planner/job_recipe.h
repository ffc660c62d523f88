// From the files of a job to its recipe: what is done before any worker is asked, alike in
// `cox plan` and in the lanes of the controller.
#ifndef COXSWAIN_CONTROLLER_PLANNER_JOB_RECIPE_H_
#define COXSWAIN_CONTROLLER_PLANNER_JOB_RECIPE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/data/documents/prompts.h"
#include "controller/data/prepare/prepare.h"
#include "controller/planner/generation_plan.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::planner {

// What the files of a job that trains hold.
struct JobFiles {
  model::ModelConfig model;  // of the base
  data::PreparedData data;
  // What users are told: of the base, then data.warnings, then of documents that are cut.
  std::vector<std::string> warnings;
};

// Reads the base's config and prepares the data, which may take minutes. Errors as ReadBaseModel
// and data::PrepareData.
absl::StatusOr<JobFiles> ReadJobFiles(const config::JobSpec& job,
                                      const data::PrepareOptions& options);

// What is made of them.
struct JobRecipe {
  Recipe recipe;
  data::PreparedPrompts prompts;
  plan::Generation generation;  // the cache in which `prompts` are answered
};

// Turns `files->model` into the config of the job (GrowVocabulary). Errors as GrowVocabulary,
// Recipe::Make, data::PreparePrompts and GenerationOf; Cancelled soon after `cancelled` returns
// true.
absl::StatusOr<JobRecipe> MakeJobRecipe(const config::JobSpec& job,
                                        const std::function<bool()>& cancelled, JobFiles* files);

// The number of the prompts, and the tokens of the longest.
PromptExtents ExtentsOf(const data::PreparedPrompts& prompts);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_JOB_RECIPE_H_
