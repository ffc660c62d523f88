// Decides how a plan uses a worker's memory: number formats, micro-batch, recompute level, LM-head
// chunk, buffer table.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/planner/layout/layout_options.h"

namespace coxswain::planner {

// Fills master_dtype, gradient_dtype, gradient_sum, zero, weight_slots, experts_at_once,
// micro_batch_bins, recompute, recompute_every, lm_head_chunk_tokens, lm_head_panel_bytes,
// attention_workspace_bytes and buffers. The other fields of the plan must be final. It takes the
// first of LayoutsToTry that fits, with fewer quantised experts at a time where need be
// (fit_experts.h) and the first sum of gradients that fits (gradient_sum.h). Memory that is then
// left goes, in this order, to the fastest algorithm of attention, to more gathered blocks under
// ZeRO 3, and to larger LM-head chunks if the head is trained and nothing is recomputed. Where
// nothing fits and loss.head is auto, a GPU's plan takes smaller chunks or the cut head, by their
// predicted time (cut_head.h). Where experts are in FP8 and no room is left for codes of weights,
// unless the job wants none, it takes the first layout of the same masters and gradients that has
// room, if that is predicted to be faster. A workspace or a number of gathered blocks that the job
// sets is kept. ResourceExhausted names need by class, limit, and changes that would fit.
// InvalidArgument names a value that no memory or model allows.
absl::Status ChooseLayout(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_LAYOUT_H_
