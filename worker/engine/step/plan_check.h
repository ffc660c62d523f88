// Checks of Prepare before it allocates.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_PLAN_CHECK_H_
#define COXSWAIN_WORKER_ENGINE_STEP_PLAN_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "kernels/attention/attention.h"
#include "kernels/loss/cross_entropy.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// InvalidArgument names a field and its value: it is out of range
// (common/plan/checks/plan_checks.h), or this engine does not support it. FailedPrecondition names
// a group with an unexpected number of trainable elements.
absl::Status CheckPlan(const plan::Plan& plan, int rank);

// InvalidArgument names the first op of the plan that the linked kernels do not support.
absl::Status CheckOps(const plan::Plan& plan, const Model& model);

// The shapes of micro-steps for attention: packed documents and, on a GPU, one document per bin.
std::vector<kernels::AttentionExtents> AttentionShapes(const plan::Plan& plan);

// The largest workspace that any op of the plan asks for. Call it after PrepareAttention.
int64_t ScratchBytes(const plan::Plan& plan, const Model& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_PLAN_CHECK_H_
