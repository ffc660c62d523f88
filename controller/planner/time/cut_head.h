// The LM head without chunks of logits (kernels/loss/cut_cross_entropy.h): its memory, its time,
// and the jobs that cannot have it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_CUT_HEAD_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_CUT_HEAD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// InvalidArgument names what the job has that a cut head cannot compute. `plan` has its parameters.
absl::Status CheckCutHead(const plan::Plan& plan);

// lm_head_panel_bytes of a plan whose micro-step and lm_head_chunk_tokens are set: the least, and
// `wanted` or what makes panels wide enough where that is 0, as far as one panel needs it.
int64_t LeastCutHeadBytes(const plan::Plan& plan);
int64_t CutHeadBytes(const plan::Plan& plan, int64_t wanted);

// Predicted time of the head and its gradients in a micro-step on a GPU, by arithmetic: of each
// product the longer of its operations and its traffic. Chunks read and write the gradient of a
// trained head once each; a cut head computes the logits twice and reads and writes the gradient of
// its input once a panel.
double HeadSeconds(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_CUT_HEAD_H_
