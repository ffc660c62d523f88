// How a plan uses a worker's memory: number formats, micro-batch, recompute level, LM-head chunk,
// buffer table.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/planner/layout_options.h"

namespace coxswain::planner {

// Fills master_dtype, gradient_dtype, zero, weight_slots, micro_batch_bins, recompute,
// recompute_every, lm_head_chunk_tokens, attention_workspace_bytes and buffers of a plan whose
// other fields are final, by the first of LayoutsToTry that fits; what memory is left then goes to
// attention's fastest algorithm, after it to gathered blocks under ZeRO 3, unless the job says how
// much and how many, and last to larger LM-head chunks where the head is trained and nothing
// recomputed. ResourceExhausted names need by class, limit, and changes that would fit;
// InvalidArgument a value that no memory or model allows.
absl::Status ChooseLayout(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_H_
