// The launches of a mixture's experts: their rows, their linears, the sum.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_EXPERTS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_EXPERTS_H_

#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

void DispatchForward(const Sweep& sweep, const BoundDispatch& op);
void DispatchBackward(const Sweep& sweep, const BoundDispatch& op);

void ExpertsForward(const Sweep& sweep, const BoundGroupedLinear& op);
void GatedExpertsForward(const Sweep& sweep, const BoundGroupedGatedLinear& op);
void ExpertsBackward(const Sweep& sweep, const BoundGroupedLinear& op);

void CombineForward(const Sweep& sweep, const BoundCombine& op);
void CombineBackward(const Sweep& sweep, const BoundCombine& op);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_EXPERTS_H_
