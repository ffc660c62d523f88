// Turns the plan's lists of ops into launches.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_BIND_OPS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_BIND_OPS_H_

#include "common/plan/plan.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/ops/bound_ops.h"

namespace coxswain::engine {

// `model` and `buffers` must stay in place while the result is used.
BoundModel BindOps(const plan::Plan& plan, const Model& model, const Buffers& buffers);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_BIND_OPS_H_
