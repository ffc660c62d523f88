#include "controller/planner/export_plan.h"

#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/planner/model/added_tokens.h"
#include "controller/planner/model/base_weights.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/plan_scalars.h"

namespace coxswain::planner {

absl::StatusOr<plan::Plan> ExportPlan(const config::JobSpec& job,
                                      const data::PreparedData& tokens) {
  std::vector<std::string> told_when_trained;
  ASSIGN_OR_RETURN(model::ModelConfig model, ReadBaseModel(job, &told_when_trained));
  RETURN_IF_ERROR(GrowVocabulary(tokens, &model));
  plan::Plan plan;
  plan.model = model;
  SetScalars(job.name, job, Sha256("export"), &plan);
  RETURN_IF_ERROR(MakeParameters(job, &plan));
  return plan;
}

}  // namespace coxswain::planner
