// The losses of routers beside that of the tokens: summed over all layers in forward, added to the
// gradient of each router's logits in backward. A pool is a bin, or the whole micro-step
// (plan::RouterLosses).
#ifndef COXSWAIN_WORKER_ENGINE_OPS_ROUTER_LOSSES_H_
#define COXSWAIN_WORKER_ENGINE_OPS_ROUTER_LOSSES_H_

#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Whether the sweep has such losses: when training, by a plan with factors.
bool HasRouterLosses(const Sweep& sweep);

// Adds the rows of one layer to the pools.
void AddRouterRows(const Sweep& sweep, const BoundRoute& op);

// Of the pools of all layers, to Scalars::loss_sum.
void AddRouterLosses(const Sweep& sweep);

// To op.dlogits, of the pools of all layers.
void AddRouterGradient(const Sweep& sweep, const BoundRoute& op);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_ROUTER_LOSSES_H_
