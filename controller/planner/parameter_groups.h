// Which tensors train, in which optimizer group.
#ifndef COXSWAIN_CONTROLLER_PLANNER_PARAMETER_GROUPS_H_
#define COXSWAIN_CONTROLLER_PLANNER_PARAMETER_GROUPS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Fills plan->parameters, plan->groups and plan->lora from plan->model. Membership is by role of
// the table, never by name. Groups of a full job: "weights" and, with decay_norm_and_bias false,
// "norms_and_biases" without decay; of a LoRA job: "lora_a" (lr_scale 1) and "lora_b"
// (loraplus_lr_ratio), with DoRA "lora_magnitude" (lr_scale 1), one weight decay for all; with
// an adapted embedding under LoRA+ "lora_embedding" (loraplus_lr_embedding); with
// modules_to_save "saved_modules" and "saved_norms_and_biases", split as those of a full job.
absl::Status MakeParameters(const config::JobSpec& job, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_PARAMETER_GROUPS_H_
