// What Prepare asks of a plan before it allocates.
#ifndef COXSWAIN_WORKER_ENGINE_PLAN_CHECK_H_
#define COXSWAIN_WORKER_ENGINE_PLAN_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

// InvalidArgument: a field out of its range (common/plan/plan_checks.h), or one whose value this
// engine does not run; names field and value. FailedPrecondition names a group whose trainable
// elements are not the expected number.
absl::Status CheckPlan(const plan::Plan& plan, int rank);

// InvalidArgument names the first op of the plan that the linked kernels do not support.
absl::Status CheckOps(const plan::Plan& plan, const Model& model);

kernels::CrossEntropySpec LossSpec(const plan::Plan& plan);

// The kinds of micro-steps that attention meets: packed documents and, on a GPU, one document a
// bin.
std::vector<kernels::AttentionExtents> AttentionShapes(const plan::Plan& plan);

// The largest workspace that any op of the plan asks for, known after PrepareAttention.
int64_t ScratchBytes(const plan::Plan& plan, const Model& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PLAN_CHECK_H_
