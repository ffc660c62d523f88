#include "bench/worker/engine/step_plan.h"

#include <utility>

#include "bench/worker/engine/step_data.h"
#include "common/config/parser/job_parser.h"
#include "common/config/rules/bin_capacity.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/planner/model/score_head.h"

namespace coxswain::bench {

absl::StatusOr<PlannedRow> PlanRow(const Row& row, const std::string& directory, int64_t steps,
                                   const planner::WorkerResources& worker) {
  RETURN_IF_ERROR(CopyModelConfig(row.model, directory));
  const config::ParsedJob job = config::ParseJob(JobYaml(row, directory, steps), directory);
  if (!job.errors.empty()) {
    return absl::InvalidArgumentError(config::FormatErrors(job.errors, row.name));
  }
  PlannedRow out;
  ASSIGN_OR_RETURN(model::ModelConfig model, model::ReadModelConfig(directory));
  RETURN_IF_ERROR(planner::PutScoreHead(job.spec, &model, nullptr));
  ASSIGN_OR_RETURN(out.data, RandomDocuments(row, model.vocab_size, directory,
                                             config::DocumentsPerUnit(job.spec)));
  ASSIGN_OR_RETURN(auto recipe, planner::Recipe::Make(job.spec, model, out.data));
  out.recipe = std::make_unique<planner::Recipe>(std::move(recipe));
  ASSIGN_OR_RETURN(out.planned,
                   planner::MakePlan("step-bench", job.spec, model, *out.recipe, worker));
  return out;
}

}  // namespace coxswain::bench
