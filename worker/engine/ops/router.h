// The launches of a router: logits, choice, and the order of the experts' rows.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_ROUTER_H_
#define COXSWAIN_WORKER_ENGINE_OPS_ROUTER_H_

#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Logits in float32, those of the adapter with them, ids and weights, then the order in which the
// experts compute.
void RouteForward(const Sweep& sweep, const BoundRoute& op);
// From the gradient of the weights, which CombineBackward wrote.
void RouteBackward(const Sweep& sweep, const BoundRoute& op);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_ROUTER_H_
