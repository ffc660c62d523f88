// precision.compute: fp8 of a job as the plan has it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_FP8_LINEARS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_FP8_LINEARS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// Fills plan->fp8; the plan has its model, architecture and parameters. InvalidArgument: a name of
// precision.fp8.exclude means no linear of a block, no linear is left, the weights are quantised,
// precision.fp8.experts is fp8 beside a recipe with more than one scale a weight, or
// precision.fp8.gather beside such a recipe or an adapter that reads more than codes, or
// precision.fp8.attention beside heads that have no such attention.
// FailedPrecondition: the GPU's compute capability (x 10, 0: not known) has no such products.
absl::Status ChooseFp8(const config::JobSpec& job, int32_t compute_capability, plan::Plan* plan);

// Linears whose products are in FP8, and all linears of blocks; the stacks of experts, likewise.
struct Fp8Count {
  int64_t in_fp8 = 0, all = 0;
  int64_t experts_in_fp8 = 0, all_experts = 0;
};
Fp8Count CountFp8(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_FP8_LINEARS_H_
