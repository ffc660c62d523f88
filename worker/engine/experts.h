// The launches of a mixture of experts: router, order of the experts' rows, their linears, sum.
#ifndef COXSWAIN_WORKER_ENGINE_EXPERTS_H_
#define COXSWAIN_WORKER_ENGINE_EXPERTS_H_

#include "worker/engine/bound_ops.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// Logits in float32, ids and weights, then the order in which the experts compute.
void RouteForward(const Sweep& sweep, const BoundRoute& op);
// From the gradient of the weights, which CombineBackward wrote.
void RouteBackward(const Sweep& sweep, const BoundRoute& op);

void DispatchForward(const Sweep& sweep, const BoundDispatch& op);
void DispatchBackward(const Sweep& sweep, const BoundDispatch& op);

void ExpertsForward(const Sweep& sweep, const BoundGroupedLinear& op);
void ExpertsBackward(const Sweep& sweep, const BoundGroupedLinear& op);

void CombineForward(const Sweep& sweep, const BoundCombine& op);
void CombineBackward(const Sweep& sweep, const BoundCombine& op);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_EXPERTS_H_
