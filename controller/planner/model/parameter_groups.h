// Decides which tensors train, and in which optimizer group.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_PARAMETER_GROUPS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_PARAMETER_GROUPS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Fills plan->parameters, plan->groups and plan->lora from plan->model. A tensor's group depends on
// its role in the table, never on its name. Full job: "weights"; with decay_norm_and_bias false
// also "norms_and_biases" without decay. LoRA job: "lora_a" (lr_scale 1), "lora_b"
// (loraplus_lr_ratio) and with DoRA "lora_magnitude" (lr_scale 1), all with one weight decay. An
// adapted embedding under LoRA+ adds "lora_embedding" (loraplus_lr_embedding). modules_to_save adds
// "saved_modules" and "saved_norms_and_biases", split as in a full job.
absl::Status MakeParameters(const config::JobSpec& job, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_PARAMETER_GROUPS_H_
