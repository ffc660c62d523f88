// The part of a plan that an export reads, without planning the job again.
#ifndef COXSWAIN_CONTROLLER_PLANNER_EXPORT_PLAN_H_
#define COXSWAIN_CONTROLLER_PLANNER_EXPORT_PLAN_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/data/prepare/prepare.h"

namespace coxswain::planner {

// Model, parameters, adapter and groups as in the job's own plan; no mesh and no buffers. `tokens`:
// the vocabulary of the job's tokenizer, without records. Errors as ReadBaseModel and
// GrowVocabulary.
absl::StatusOr<plan::Plan> ExportPlan(const config::JobSpec& job, const data::PreparedData& tokens);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_EXPORT_PLAN_H_
