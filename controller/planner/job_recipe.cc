#include "controller/planner/job_recipe.h"

#include <utility>

#include "common/status_macros.h"
#include "controller/planner/model/added_tokens.h"
#include "controller/planner/model/base_weights.h"
#include "controller/planner/model/long_documents.h"

namespace coxswain::planner {

absl::StatusOr<JobFiles> ReadJobFiles(const config::JobSpec& job,
                                      const data::PrepareOptions& options) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(model::ModelConfig model, ReadBaseModel(job, &warnings));
  ASSIGN_OR_RETURN(data::PreparedData data, data::PrepareData(job, options));
  for (const auto& more : {data.warnings, LongDocumentWarnings(job, model, data)}) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  return JobFiles{
      .model = std::move(model), .data = std::move(data), .warnings = std::move(warnings)};
}

absl::StatusOr<JobRecipe> MakeJobRecipe(const config::JobSpec& job,
                                        const std::function<bool()>& cancelled, JobFiles* files) {
  RETURN_IF_ERROR(GrowVocabulary(files->data, &files->model));
  ASSIGN_OR_RETURN(Recipe recipe, Recipe::Make(job, files->model, files->data, cancelled));
  ASSIGN_OR_RETURN(data::PreparedPrompts prompts, data::PreparePrompts(job));
  ASSIGN_OR_RETURN(plan::Generation generation, GenerationOf(job, ExtentsOf(prompts)));
  return JobRecipe{.recipe = std::move(recipe),
                   .prompts = std::move(prompts),
                   .generation = std::move(generation)};
}

PromptExtents ExtentsOf(const data::PreparedPrompts& prompts) {
  return {.texts = static_cast<int64_t>(prompts.ids.size()), .longest = prompts.longest()};
}

}  // namespace coxswain::planner
