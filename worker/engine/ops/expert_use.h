// What the routers of a step tell: sums on the device over its micro-steps and ranks, read back
// with the loss (plan::RouterUseDoubles).
#ifndef COXSWAIN_WORKER_ENGINE_OPS_EXPERT_USE_H_
#define COXSWAIN_WORKER_ENGINE_OPS_EXPERT_USE_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "kernels/experts/expert_use.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

kernels::ExpertUseSpec UseSpec(const kernels::RouteSpec& spec);

// Adds the rows of one layer of a micro-step.
void AddExpertUse(const Sweep& sweep, const BoundRoute& op);

// The two sums of the losses of all routers, behind those of routers.
double* RouterLossSumsOf(const Sweep& sweep);

// Of the sums of a whole step, in host memory. `loss_denominator`: of the step.
ExpertUse ExpertUseOf(const plan::Plan& plan, const double* sums, int64_t loss_denominator);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_EXPERT_USE_H_
